/** Compares two versions side by side, part by part; unsaved changes count as a version. */
import { Group, SegmentedControl, Select, Text } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { useState } from 'react';
import { Difference } from '../../parts/code-editor.tsx';
import { Panel } from '../../parts/page.tsx';
import { page, parts as partNames, versions as texts } from '../../texts/templates.ts';
import { type Content, contentOf, PARTS, type Part, type TemplateVersion } from './content.ts';
import type { Draft } from './draft.ts';
import classes from './templates.module.css';

const UNSAVED = 'unsaved';
/** On narrower screens, two texts side by side are not readable. */
const WIDE = '(min-width: 60em)';

interface CompareProps {
  versions: readonly TemplateVersion[];
  draft: Draft;
  pair: readonly [string, string] | undefined;
  onPair(pair: readonly [string, string]): void;
}

interface Choice {
  value: string;
  label: string;
  content: Content;
}

function choicesOf(versions: readonly TemplateVersion[], { isDirty, content }: Draft): Choice[] {
  const saved = versions.map((one) => ({
    value: String(one.version),
    label: page.version(one.version),
    content: contentOf(one),
  }));
  return isDirty ? [{ value: UNSAVED, label: texts.unsaved, content }, ...saved] : saved;
}

export function Compare({ versions, draft, pair, onPair }: CompareProps) {
  const [chosenPart, setPart] = useState<Part>();
  const [view, setView] = useState('sideBySide');
  const isWide = useMediaQuery(WIDE) ?? true;
  const choices = choicesOf(versions, draft);
  const find = (value: string | undefined) => choices.find((one) => one.value === value);
  const after = find(pair?.[1]) ?? choices[0];
  const before = find(pair?.[0]) ?? choices[1] ?? choices[0];
  if (after === undefined || before === undefined) return null;
  const isMjml = before.content.mjml !== null || after.content.mjml !== null;
  const parts = PARTS.filter((part) => part !== 'mjml' || isMjml);
  const differs = parts.filter((part) => before.content[part] !== after.content[part]);
  const main = isMjml ? 'mjml' : 'html';
  const part = chosenPart ?? differs.find((one) => one === main) ?? differs[0] ?? main;
  const [from, to] = [before.content[part] ?? '', after.content[part] ?? ''];
  return (
    <section className={classes.compare}>
      <Panel title={texts.title}>
        <Group gap="sm" mb="sm" align="flex-end">
          <Select
            label={texts.before}
            data={choices}
            value={before.value}
            w={'9rem'}
            onChange={(value) => onPair([value!, after.value])}
          />
          <Select
            label={texts.after}
            data={choices}
            value={after.value}
            w={'9rem'}
            onChange={(value) => onPair([before.value, value!])}
          />
          <SegmentedControl
            value={part}
            aria-label={texts.part}
            data={parts.map((value) => ({
              value,
              label: differs.includes(value) ? `${partNames[value]} •` : partNames[value],
            }))}
            onChange={(value) => setPart(value as Part)}
          />
          {isWide && (
            <SegmentedControl
              value={view}
              aria-label={texts.view}
              onChange={setView}
              data={[
                { value: 'sideBySide', label: texts.sideBySide },
                { value: 'unified', label: texts.unified },
              ]}
            />
          )}
        </Group>
        {from === to && <Text c="dimmed">{texts.same}</Text>}
        {from !== to && (
          <Difference
            before={{ name: before.label, value: from }}
            after={{ name: after.label, value: to }}
            language={part === 'html' || part === 'mjml' ? 'html' : 'text'}
            isSideBySide={isWide && view === 'sideBySide'}
          />
        )}
      </Panel>
    </section>
  );
}
