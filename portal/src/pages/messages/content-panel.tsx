/** The content of a message: preview, text, headers, source, and its files, which can only be downloaded. */
import { Button, Group, Skeleton, Stack, Tabs, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { PostriderError } from '../../api.ts';
import { IconDownload, IconPaperclip } from '../../icons.ts';
import { saveFile } from '../../parts/csv.ts';
import { MailPreview } from '../../parts/mail-preview.tsx';
import { Panel } from '../../parts/page.tsx';
import { EmptyState, ErrorState } from '../../parts/states.tsx';
import { size } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { messagePage, content as texts } from '../../texts/messages.ts';
import type { MailFile, MailParts } from './mail-parts.ts';
import classes from './messages.module.css';

/** Larger messages are loaded on request. */
const AT_ONCE_BYTES = 2_000_000;
/** The part of the source that is shown. */
const SHOWN_BYTES = 200_000;

export interface ContentSource {
  /** Cache key of the content. */
  key: readonly unknown[];
  read(signal: AbortSignal): Promise<Response>;
  sizeBytes: number;
  /** Shown if the content no longer exists. */
  gone: { title: string; hint: string };
}

interface Read {
  raw: Uint8Array<ArrayBuffer>;
  parts: MailParts;
}

function useContent({ key, read }: ContentSource, isWanted: boolean) {
  return useQuery({
    queryKey: key,
    enabled: isWanted,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
    async queryFn({ signal }): Promise<Read | null> {
      try {
        const [response, { takeApart }] = await Promise.all([read(signal), import('./mail-parts.ts')]);
        const raw = new Uint8Array(await response.arrayBuffer());
        return { raw, parts: await takeApart(raw) };
      } catch (error) {
        if (error instanceof PostriderError && error.status === 404) return null;
        throw error;
      }
    },
  });
}

export function ContentPanel({ source }: { source: ContentSource }) {
  const [isAsked, setAsked] = useState(source.sizeBytes <= AT_ONCE_BYTES);
  const read = useContent(source, isAsked);
  const body = (): ReactNode => {
    if (!isAsked)
      return (
        <Group>
          <Text>{texts.large(size(source.sizeBytes))}</Text>
          <Button variant="default" onClick={() => setAsked(true)}>
            {texts.load}
          </Button>
        </Group>
      );
    if (read.isError) return <ErrorState error={read.error} onRetry={read.refetch} />;
    if (read.data === undefined) return <Skeleton height={240} aria-busy aria-label={texts.loading} role="status" />;
    if (read.data === null) return <EmptyState title={source.gone.title}>{source.gone.hint}</EmptyState>;
    return <Parts read={read.data} />;
  };
  return <Panel title={messagePage.content}>{body()}</Panel>;
}

function Parts({ read: { raw, parts } }: { read: Read }) {
  const { html, text, headers, files } = parts;
  const panels: Record<keyof typeof texts.tabs, ReactNode> = {
    html: html === undefined ? <Text c="dimmed">{texts.noHtml}</Text> : <MailPreview html={html} />,
    text: text === undefined ? <Text c="dimmed">{texts.noText}</Text> : <Source text={text} label={texts.textOf} />,
    headers: <Source text={headers} label={texts.headerList} isMono />,
    raw: <Raw raw={raw} />,
    files: <Files files={files} />,
  };
  return (
    <Tabs defaultValue={html === undefined ? 'text' : 'html'} keepMounted={false}>
      <Tabs.List aria-label={texts.tabsLabel} mb="sm">
        {Object.entries(texts.tabs).map(([name, label]) => (
          <Tabs.Tab key={name} value={name}>
            {name === 'files' && files.length > 0 ? `${label} (${files.length})` : label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {Object.entries(panels).map(([name, panel]) => (
        <Tabs.Panel key={name} value={name}>
          {panel}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}

function Source({ text, label, isMono = false }: { text: string; label: string; isMono?: boolean }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard (WCAG 2.1.1)
    <section className={classes.source} aria-label={label} tabIndex={0}>
      <pre style={isMono ? undefined : { fontFamily: 'inherit', fontSize: 'inherit' }}>{text}</pre>
    </section>
  );
}

function Raw({ raw }: { raw: Read['raw'] }) {
  const shown = new TextDecoder().decode(raw.subarray(0, SHOWN_BYTES));
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Text c="dimmed" size="xs">
          {raw.length > SHOWN_BYTES ? texts.cut(size(SHOWN_BYTES), size(raw.length)) : size(raw.length)}
        </Text>
        <Button
          variant="default"
          leftSection={<IconDownload size={14} aria-hidden />}
          onClick={() => saveFile('message.eml', new Blob([raw], { type: 'message/rfc822' }))}
        >
          {texts.downloadRaw}
        </Button>
      </Group>
      <Source text={shown} label={texts.rawOf} isMono />
    </Stack>
  );
}

function Files({ files }: { files: readonly MailFile[] }) {
  if (files.length === 0) return <Text c="dimmed">{texts.noFiles}</Text>;
  return (
    <div>
      <Text c="dimmed" size="xs">
        {texts.caution}
      </Text>
      {files.map((file, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: parts of a message that does not change, some with one name
        <FileRow key={index} file={file} />
      ))}
    </div>
  );
}

function FileRow({ file: { name = texts.unnamed, type, bytes } }: { file: MailFile }) {
  return (
    <div className={classes.file}>
      <span className={classes.fileName}>
        <IconPaperclip size={14} aria-hidden /> {visible(name)}
      </span>
      <Text component="span" size="xs" c="dimmed">
        {type} · {size(bytes.length)}
      </Text>
      <Button
        variant="default"
        leftSection={<IconDownload size={14} aria-hidden />}
        aria-label={texts.downloadName(name)}
        // A type that browsers never open, whatever the message declares.
        onClick={() => saveFile(name, new Blob([bytes], { type: 'application/octet-stream' }))}
      >
        {texts.download}
      </Button>
    </div>
  );
}
