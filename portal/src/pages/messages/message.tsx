/** One message: the status summary, the timeline, the content, and the details. */
import { useParams } from '@tanstack/react-router';
import { type MessageDetail, useCall } from '../../api.ts';
import { useFresh } from '../../live.tsx';
import { AsCode } from '../../parts/as-code.tsx';
import { StatusBadge } from '../../parts/badge.tsx';
import { Page } from '../../parts/page.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { visible } from '../../parts/visible.ts';
import { useScope } from '../../scope.ts';
import { content, messagePage } from '../../texts/messages.ts';
import { AnswerBox } from './answer-box.tsx';
import { ContentPanel } from './content-panel.tsx';
import { MessageActions } from './message-actions.tsx';
import { MessageFacts } from './message-facts.tsx';
import classes from './messages.module.css';
import { ShareButton } from './share.tsx';
import { Story } from './story.tsx';

/** Attempts without a status change cause no event, so waiting messages are polled. */
const UNSETTLED: ReadonlySet<string> = new Set(['queued', 'sending', 'delayed']);
const AGAIN_MS = 5_000;

export function MessagePage() {
  const { id = '' } = useParams({ strict: false }) as { id?: string };
  const input = { path: { id } };
  const first = useCall('getMessage', input);
  const isUnsettled = first.data !== undefined && UNSETTLED.has(first.data.status);
  const { data: message, ...query } = useCall('getMessage', input, { everyMs: isUnsettled ? AGAIN_MS : undefined });
  useFresh(['getMessage'], ({ messageId }) => messageId === id);
  if (message !== undefined) return <Shown key={id} message={message} />;
  if (!query.isError) return <Loading />;
  return (
    <Page title={messagePage.title}>
      <ErrorState error={query.error} onRetry={query.refetch} />
    </Page>
  );
}

/** Whether the address is suppressed now; undefined if irrelevant or not known yet. */
function useSuppressed({ to, status, timeline }: MessageDetail): boolean | undefined {
  const wasSuppressed =
    status === 'suppressed' ||
    timeline.some(({ bounce, complaint, reject }) => (bounce ?? complaint ?? reject)?.suppressed === true);
  const found = useCall('getSuppression', { path: { email: to } }, { enabled: wasSuppressed });
  if (!wasSuppressed || found.isPending) return undefined;
  return found.isSuccess;
}

function Shown({ message }: { message: MessageDetail }) {
  const { caller, mode, name } = useScope();
  const isSuppressed = useSuppressed(message);
  const { messageId, sizeBytes } = message;
  return (
    <Page
      title={visible(message.subject) || messagePage.noSubject}
      badge={<StatusBadge status={message.status} />}
      parent={{ href: `/app/${mode}/messages`, name: messagePage.messages }}
      lead={`${messagePage.to} ${message.to}`}
      actions={
        <>
          <MessageActions message={message} isSuppressed={isSuppressed} />
          <ShareButton message={message} />
        </>
      }
      code={<AsCode operation="getMessage" input={{ path: { id: messageId } }} />}
    >
      <AnswerBox message={message} isSuppressed={isSuppressed} />
      <div className={classes.columns}>
        <div className={classes.column}>
          <Story message={message} />
          <ContentPanel
            source={{
              sizeBytes,
              gone: { title: content.gone, hint: content.goneHint },
              key: ['getMessageContent', name, messageId],
              read: (signal) => caller.call('getMessageContent', { path: { id: messageId } }, { signal }),
            }}
          />
        </div>
        <div className={classes.side}>
          <MessageFacts message={message} />
        </div>
      </div>
    </Page>
  );
}
