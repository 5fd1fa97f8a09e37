/** The result of the template with the selected sample values. */
import { SegmentedControl, Text } from '@mantine/core';
import { useState } from 'react';
import { MailPreview } from '../../parts/mail-preview.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Panel } from '../../parts/page.tsx';
import { useScope } from '../../scope.ts';
import { previewing } from '../../texts/templates.ts';
import type { Content } from './content.ts';
import type { Preview } from './previewing.ts';
import classes from './templates.module.css';

const PART_NAMES = [
  { value: 'html', label: previewing.html },
  { value: 'text', label: previewing.text },
];

export function PreviewPanel({ preview, content }: { preview: Preview; content: Content }) {
  const { mayWrite } = useScope();
  const [part, setPart] = useState('html');
  const shown = mayWrite ? preview.shown : { ...content, missingVariables: [] };
  const { missing } = preview;
  return (
    <Panel
      title={previewing.title}
      actions={<SegmentedControl data={PART_NAMES} value={part} onChange={setPart} aria-label={previewing.part} />}
    >
      <div role="status">
        {!mayWrite && (
          <Text size="xs" c="dimmed" mb="xs">
            {previewing.viewer}
          </Text>
        )}
        {preview.error !== null && (
          <Notice tone="bad" title={previewing.failed}>
            {(preview.error as Error).message}
          </Notice>
        )}
        {missing.length > 0 && preview.error === null && (
          <Notice tone="wait" title={previewing.missing(missing)}>
            {previewing.missingHint}
          </Notice>
        )}
      </div>
      {shown !== undefined && (
        <>
          <p className={classes.subject}>
            <span>{previewing.subject}</span> {shown.subject || <em>{previewing.noSubject}</em>}
          </p>
          {part === 'html' && shown.html && <MailPreview html={shown.html} />}
          {part === 'text' && shown.text && (
            // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard (WCAG 2.1.1)
            <section className={classes.text} tabIndex={0} aria-label={previewing.text}>
              {shown.text}
            </section>
          )}
          {!(part === 'html' ? shown.html : shown.text) && <Text c="dimmed">{previewing.nothing}</Text>}
        </>
      )}
    </Panel>
  );
}
