/** A rendered template: its subject, and its HTML or text. */
import { SegmentedControl, Text } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { MailPreview } from '../../parts/mail-preview.tsx';
import { Panel } from '../../parts/page.tsx';
import { previewing } from '../../texts/templates.ts';
import classes from './templates.module.css';

const PART_NAMES = [
  { value: 'html', label: previewing.html },
  { value: 'text', label: previewing.text },
];

interface Rendered {
  subject: string | null;
  html: string | null;
  text: string | null;
}

interface RenderedPanelProps {
  rendered: Rendered | undefined;
  /** The title of the page is the subject. */
  hidesSubject?: boolean;
  /** Above the subject. */
  children?: ReactNode;
}

export function RenderedPanel({ rendered, hidesSubject = false, children }: RenderedPanelProps) {
  const [part, setPart] = useState('html');
  return (
    <Panel
      title={previewing.title}
      actions={<SegmentedControl data={PART_NAMES} value={part} onChange={setPart} aria-label={previewing.part} />}
    >
      {children}
      {rendered !== undefined && (
        <>
          {!hidesSubject && (
            <p className={classes.subject}>
              <span>{previewing.subject}</span> {rendered.subject || <em>{previewing.noSubject}</em>}
            </p>
          )}
          {part === 'html' && rendered.html && <MailPreview html={rendered.html} />}
          {part === 'text' && rendered.text && (
            // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard (WCAG 2.1.1)
            <section className={classes.text} tabIndex={0} aria-label={previewing.text}>
              {rendered.text}
            </section>
          )}
          {!(part === 'html' ? rendered.html : rendered.text) && <Text c="dimmed">{previewing.nothing}</Text>}
        </>
      )}
    </Panel>
  );
}
