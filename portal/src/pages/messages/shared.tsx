/** The page of a share link, without login: the same status and timeline that the account sees. */
import '../../mantine-pages.css';
import { Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useState } from 'react';
import { type Answer, callerOf, PostriderError } from '../../api.ts';
import { basePath } from '../../base-path.ts';
import { StatusBadge } from '../../parts/badge.tsx';
import { Facts, Panel } from '../../parts/page.tsx';
import { EmptyState, ErrorState, Loading } from '../../parts/states.tsx';
import { exactTime, size, Time } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { content, messagePage, sharing as texts, facts as words } from '../../texts/messages.ts';
import { AnswerBox } from './answer-box.tsx';
import { ContentPanel } from './content-panel.tsx';
import classes from './messages.module.css';
import { Story } from './story.tsx';

type Shared = Answer<'getSharedMessage'>;

const AGAIN_MS = 15_000;
const UNSETTLED: ReadonlySet<string> = new Set(['scheduled', 'queued', 'sending', 'delayed']);

const tokenOf = (): string => new URLSearchParams(location.hash.slice(1)).get('token') ?? '';

/** Reads the token after the # of the URL; the user may open another link in the same tab. */
function useToken(): string {
  const [token, setToken] = useState(tokenOf);
  useEffect(() => {
    const changed = (): void => setToken(tokenOf());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return token;
}

export function SharedMessagePage() {
  const token = useToken();
  const headers = { 'X-Share-Token': token };
  const query = useQuery({
    queryKey: ['getSharedMessage', token],
    queryFn: ({ signal }) => callerOf().call('getSharedMessage', { headers }, { signal }),
    enabled: token !== '',
    refetchInterval: ({ state }) => (UNSETTLED.has(state.data?.status ?? '') ? AGAIN_MS : false),
  });
  const isInvalid = token === '' || (query.error instanceof PostriderError && query.error.status === 404);
  if (query.data !== undefined && !isInvalid) return <Shown message={query.data} token={token} />;
  if (isInvalid)
    return (
      <Frame title={texts.invalid}>
        <Text>{texts.invalidHint}</Text>
      </Frame>
    );
  return (
    <Frame title={texts.pageTitle}>
      {query.isError ? <ErrorState error={query.error} onRetry={query.refetch} /> : <Loading />}
    </Frame>
  );
}

function Frame({ title, badge, children }: { title: string; badge?: ReactNode; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Postrider`;
  }, [title]);
  return (
    <main className={classes.shared}>
      <div className={classes.brand}>
        <img src={`${basePath}/icon.svg`} alt="" width={20} height={20} />
        Postrider
      </div>
      <div className={classes.sharedHead}>
        <Title order={1}>{title}</Title>
        {badge}
      </div>
      {children}
    </main>
  );
}

function Shown({ message, token }: { message: Shared; token: string }) {
  const { messageId, sizeBytes, contentHidden, subjectHidden, validUntil } = message;
  const title = subjectHidden ? texts.hiddenSubject : visible(message.subject) || messagePage.noSubject;
  const gone = { title: content.goneShared, hint: content.goneSharedHint };
  return (
    <Frame title={title} badge={<StatusBadge status={message.status} />}>
      <Text c="dimmed" mb="md">
        {texts.readOnly} {texts.validUntil(exactTime(validUntil))}
      </Text>
      <AnswerBox message={message} isOwn={false} />
      <div className={classes.column}>
        <Story message={message} />
        <Panel title={messagePage.facts}>
          <Facts
            of={[
              [words.to, message.to],
              [words.from, message.from],
              [
                words.id,
                <span key="id" className="mono">
                  {messageId}
                </span>,
              ],
              [
                words.headerId,
                <span key="header" className="mono">
                  {message.headerMessageId}
                </span>,
              ],
              [words.size, size(sizeBytes)],
              [words.created, <Time key="created" at={message.createdAt} exact />],
            ]}
          />
        </Panel>
        {contentHidden ? (
          <Panel title={messagePage.content}>
            <EmptyState title={gone.title}>{gone.hint}</EmptyState>
          </Panel>
        ) : (
          <ContentPanel
            source={{
              sizeBytes,
              gone,
              key: ['getSharedMessageContent', token],
              read: (signal) =>
                callerOf().call('getSharedMessageContent', { headers: { 'X-Share-Token': token } }, { signal }),
            }}
          />
        )}
      </div>
    </Frame>
  );
}
