/** Details of a message: ids, addresses, tags, template, sizes and times. */
import { Anchor, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type MessageDetail, useCall } from '../../api.ts';
import { Copyable } from '../../parts/copy.tsx';
import { Facts, Panel } from '../../parts/page.tsx';
import { size, Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { messagePage, facts as texts } from '../../texts/messages.ts';
import { SETTLED } from './message-actions.tsx';
import classes from './messages.module.css';

const time = (at: string | undefined) => at && <Time at={at} exact />;

export function MessageFacts({ message }: { message: MessageDetail }) {
  const { tags, metadata, templateId, templateVersion, role } = message;
  const base = `/app/${useScope().mode}`;
  const pairs = Object.entries(metadata);
  const request = useCall('listRequests', { query: { messageId: message.messageId, limit: 1 } }).data?.[0];
  return (
    <Panel title={messagePage.facts}>
      <Facts
        of={[
          [texts.to, <Copyable key="to" value={message.to} />],
          [texts.role, role === 'to' ? undefined : texts.roles[role]],
          [texts.from, message.from],
          [texts.id, <Copyable key="id" value={message.messageId} />],
          [texts.headerId, <Copyable key="header" value={message.headerMessageId} />],
          [texts.tags, tags.length === 0 ? undefined : <TagLinks key="tags" tags={tags} base={base} />],
          [texts.metadata, pairs.length === 0 ? undefined : <Pairs key="metadata" pairs={pairs} base={base} />],
          [
            texts.template,
            templateId && (
              <>
                <Anchor component={Link} to={`${base}/templates/${templateId}`}>
                  <span className="mono">{templateId}</span>
                </Anchor>{' '}
                {templateVersion !== undefined && texts.version(templateVersion)}
              </>
            ),
          ],
          [
            texts.request,
            request && (
              <Anchor component={Link} to={`${base}/requests`} search={{ message: message.messageId } as never}>
                <span className="mono">{request.requestId}</span>
              </Anchor>
            ),
          ],
          [texts.size, size(message.sizeBytes)],
          [texts.created, time(message.createdAt)],
          [texts.sendAt, time(message.sendAt)],
          [texts.nextAttempt, time(message.nextAttemptAt)],
          [texts.expires, SETTLED.has(message.status) ? undefined : time(message.expiresAt)],
        ]}
      />
    </Panel>
  );
}

/** Each tag links to the messages that have it. */
function TagLinks({ tags, base }: { tags: readonly string[]; base: string }) {
  return (
    <span className={classes.tags}>
      {tags.map((tag) => (
        <Link key={tag} to={`${base}/messages`} search={{ tags: tag } as never} className={classes.tag}>
          {tag}
        </Link>
      ))}
    </span>
  );
}

function Pairs({ pairs, base }: { pairs: readonly (readonly [string, string])[]; base: string }) {
  return pairs.map(([name, value]) => (
    <div key={name}>
      <Text component="span" c="dimmed">
        {name}
      </Text>{' '}
      <Anchor component={Link} to={`${base}/messages`} search={{ metadata: `${name}=${value}` } as never}>
        {value}
      </Anchor>
    </div>
  ));
}
