/** The page of a share link, without login: the same status and timeline that the account sees. */
import '../../mantine-pages.css';
import { Text } from '@mantine/core';
import { type Answer, callerOf } from '../../api.ts';
import { StatusBadge } from '../../parts/badge.tsx';
import { Facts, Panel } from '../../parts/page.tsx';
import { SharedFrame, SharedPage, type TokenHeaders } from '../../parts/shared-page.tsx';
import { EmptyState } from '../../parts/states.tsx';
import { exactTime, size, Time } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { content, messagePage, sharing as texts, facts as words } from '../../texts/messages.ts';
import { sharing } from '../../texts/share.ts';
import { AnswerBox } from './answer-box.tsx';
import { ContentPanel } from './content-panel.tsx';
import classes from './messages.module.css';
import { Story } from './story.tsx';

type Shared = Answer<'getSharedMessage'>;

const AGAIN_MS = 15_000;
const UNSETTLED: ReadonlySet<string> = new Set(['scheduled', 'queued', 'sending', 'delayed']);

export function SharedMessagePage() {
  return (
    <SharedPage
      title={texts.pageTitle}
      name="getSharedMessage"
      read={(headers, signal) => callerOf().call('getSharedMessage', { headers }, { signal })}
      againMs={({ status }) => (UNSETTLED.has(status) ? AGAIN_MS : false)}
    >
      {(message, headers) => <Shown message={message} headers={headers} />}
    </SharedPage>
  );
}

function Shown({ message, headers }: { message: Shared; headers: TokenHeaders }) {
  const { messageId, sizeBytes, contentHidden, subjectHidden, validUntil } = message;
  const title = subjectHidden ? texts.hiddenSubject : visible(message.subject) || messagePage.noSubject;
  const gone = { title: content.goneShared, hint: content.goneSharedHint };
  return (
    <SharedFrame title={title} badge={<StatusBadge status={message.status} />}>
      <Text c="dimmed" mb="md">
        {texts.readOnly} {sharing.validUntil(exactTime(validUntil))}
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
              key: ['getSharedMessageContent', headers['X-Share-Token']],
              read: (signal) => callerOf().call('getSharedMessageContent', { headers }, { signal }),
            }}
          />
        )}
      </div>
    </SharedFrame>
  );
}
