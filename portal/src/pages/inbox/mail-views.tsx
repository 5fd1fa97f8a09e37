/** The views of a captured message: preview, text, source, headers, and HTML checks. */
import { Tabs, Text } from '@mantine/core';
import { lazy, Suspense, useMemo } from 'react';
import type { Answer } from '../../api.ts';
import { Code } from '../../parts/copy.tsx';
import { MailPreview } from '../../parts/mail-preview.tsx';
import { Facts, Panel } from '../../parts/page.tsx';
import { Loading } from '../../parts/states.tsx';
import { useSearchState } from '../../search-state.ts';
import { checks, mail as texts } from '../../texts/inbox.ts';
import { Findings } from './findings.tsx';
import { type Finding, findingsOf } from './html-checks.ts';
import classes from './inbox.module.css';

const SupportTable = lazy(async () => ({ default: (await import('./support-table.tsx')).SupportTable }));

type Mail = Answer<'getSandboxMessage'>;

const PREVIEW_HEIGHT = 520;

export function Views({ mail }: { mail: Mail }) {
  const [{ view }, setSearch] = useSearchState();
  const { html, text } = mail;
  const findings = useMemo(() => (html === null ? [] : findingsOf({ html, text })), [html, text]);
  const names = mail.html === null ? ['text', 'headers'] : ['preview', 'text', 'html', 'headers', 'checks'];
  if (mail.html === null && mail.text === null) return <Panel>{texts.contentGone}</Panel>;
  return (
    <Panel>
      <Tabs
        keepMounted={false}
        value={names.includes(view ?? '') ? view! : names[0]!}
        onChange={(value) => setSearch({ view: value === names[0] ? undefined : (value ?? undefined) })}
      >
        <Tabs.List aria-label={texts.views} mb="sm">
          {names.map((name) => (
            <Tabs.Tab key={name} value={name}>
              {texts[name as 'text']}
              {name === 'checks' && findings.length > 0 && ` (${findings.length})`}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {names.map((name) => (
          <Tabs.Panel key={name} value={name}>
            <View name={name} mail={mail} findings={findings} />
          </Tabs.Panel>
        ))}
      </Tabs>
    </Panel>
  );
}

function View({ name, mail, findings }: { name: string; mail: Mail; findings: readonly Finding[] }) {
  const { html, text, headers } = mail;
  if (name === 'preview') return <MailPreview html={html ?? ''} height={PREVIEW_HEIGHT} />;
  if (name === 'html') return <Code code={html ?? ''} label={texts.html} />;
  if (name === 'headers') return <Facts of={Object.entries(headers).map(([key, value]) => [key, value] as const)} />;
  if (name === 'checks') {
    if (html === null) return checks.noHtml;
    return (
      <>
        <Findings findings={findings} />
        <Suspense fallback={<Loading />}>
          <SupportTable html={html} />
        </Suspense>
      </>
    );
  }
  return text === null ? <Text c="dimmed">{texts.noText}</Text> : <div className={classes.text}>{text}</div>;
}
