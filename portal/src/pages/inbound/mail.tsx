/** One inbound message: its outcome, its content, and its files, which can only be downloaded. */
import { Anchor, Button, Text } from '@mantine/core';
import { Link, useParams } from '@tanstack/react-router';
import { type Answer, useCall } from '../../api.ts';
import { IconDownload, IconPaperclip } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { Copyable } from '../../parts/copy.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Facts, Page, Panel } from '../../parts/page.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { size, Time } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { useScope } from '../../scope.ts';
import { inboundMail, outcomes, inboundPage as texts } from '../../texts/inbound.ts';
import { ContentPanel } from '../messages/content-panel.tsx';
import classes from '../messages/messages.module.css';
import { Authentication } from './authentication.tsx';
import { OutcomeBadge } from './outcome.tsx';

type Mail = Answer<'getInboundMail'>;

export function InboundMailPage() {
  const { id = '' } = useParams({ strict: false }) as { id?: string };
  const found = useCall('getInboundMail', { path: { id } });
  if (found.data !== undefined) return <Shown key={id} mail={found.data} />;
  return found.isError ? <ErrorState error={found.error} onRetry={found.refetch} isPage /> : <Loading />;
}

/** Links have the service's public URL; use the origin of this page instead. */
const here = (url: string): string => new URL(url).pathname;

function Shown({ mail }: { mail: Mail }) {
  const { caller, mode, name } = useScope();
  const { inboundId, sizeBytes, contentKept, content } = mail;
  const from = mail.from || mail.envelopeFrom || inboundMail.nobody;
  return (
    <Page
      title={visible(mail.subject) || inboundMail.noSubject}
      badge={<OutcomeBadge outcome={mail.outcome} />}
      parent={{ href: `/app/${mode}/inbound`, name: texts.parent }}
      lead={<span style={{ overflowWrap: 'anywhere' }}>{texts.lead(from, mail.recipient)}</span>}
      actions={
        contentKept && (
          <Button
            component="a"
            href={here(content.rawUrl)}
            download={`${inboundId}.eml`}
            variant="default"
            leftSection={<IconDownload size={14} aria-hidden />}
          >
            {texts.download}
          </Button>
        )
      }
      code={<AsCode operation="getInboundMail" input={{ path: { id: inboundId } }} />}
    >
      {content.unreadable.length > 0 && (
        <Notice tone="wait" title={texts.unreadable}>
          {content.unreadable.join(' ')}
        </Notice>
      )}
      <div className={classes.columns}>
        <div className={classes.column}>
          <Reply mail={mail} />
          <ContentPanel
            source={{
              sizeBytes,
              gone: { title: texts.gone, hint: texts.goneHint },
              key: ['getInboundMailContent', name, inboundId],
              read: (signal) => caller.call('getInboundMailContent', { path: { id: inboundId } }, { signal }),
            }}
          />
        </div>
        <div className={`${classes.column} ${classes.side}`}>
          {contentKept && content.attachments.length > 0 && <Attachments mail={mail} />}
          {content.authentication && <Authentication results={content.authentication} />}
          <MailFacts mail={mail} />
        </div>
      </div>
    </Page>
  );
}

/** Shows the full text if it has more than the reply. */
function Reply({ mail: { content } }: { mail: Mail }) {
  const reply = content.replyText?.trim();
  if (!reply || reply === content.text?.trim()) return null;
  return (
    <Panel title={texts.reply}>
      <Text style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>{reply}</Text>
      <Text c="dimmed" size="xs" mt="xs">
        {texts.replyHint}
      </Text>
    </Panel>
  );
}

function Attachments({ mail: { content } }: { mail: Mail }) {
  return (
    <Panel title={texts.attachments}>
      <Text c="dimmed" size="xs">
        {texts.attachmentsHint}
      </Text>
      {content.attachments.map(({ name, contentType, sizeBytes, url }) => (
        <div key={url} className={classes.file}>
          <span className={classes.fileName}>
            <IconPaperclip size={14} aria-hidden />{' '}
            <Anchor href={here(url)} download={name} style={{ overflowWrap: 'anywhere' }}>
              {visible(name)}
            </Anchor>
          </span>
          <Text component="span" size="xs" c="dimmed">
            {contentType} · {size(sizeBytes)}
          </Text>
        </div>
      ))}
    </Panel>
  );
}

function MailFacts({ mail }: { mail: Mail }) {
  const base = `/app/${useScope().mode}`;
  const { names } = texts;
  const { content, inReplyTo, eventId } = mail;
  return (
    <Panel title={texts.facts}>
      <Facts
        of={[
          [names.outcome, outcomes[mail.outcome].why],
          [names.from, mail.from || undefined],
          [names.envelopeFrom, mail.envelopeFrom || inboundMail.nobody],
          [names.to, <Copyable key="to" value={mail.recipient} />],
          [
            names.replies,
            inReplyTo === null ? undefined : (
              <Anchor key="replies" component={Link} to={`${base}/messages/${inReplyTo}`}>
                {texts.toMessage}
              </Anchor>
            ),
          ],
          [names.automatic, content.autoReply ? texts.program : undefined],
          [
            names.route,
            <Anchor key="route" component={Link} to={`${base}/inbound-routes/${mail.inboundRouteId}`}>
              {texts.toRoute}
            </Anchor>,
          ],
          [names.received, <Time key="received" at={mail.receivedAt} exact />],
          [names.size, size(mail.sizeBytes)],
          [names.id, <Copyable key="id" value={mail.inboundId} />],
          [names.event, eventId === null ? undefined : <Copyable key="event" value={eventId} />],
          [
            names.headerId,
            content.headerMessageId === null ? undefined : <Copyable key="header" value={content.headerMessageId} />,
          ],
        ]}
      />
    </Panel>
  );
}
