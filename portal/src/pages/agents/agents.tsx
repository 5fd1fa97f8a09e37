/** Live changes that AI agents asked for, each with the exact call, and the decision of a member. */
import { Button, Code, Stack, Text } from '@mantine/core';
import { type Answer, useCall, useChange, usePages } from '../../api.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { StatusBadge } from '../../parts/badge.tsx';
import { LiveOnly } from '../../parts/notice.tsx';
import { Facts, Page, Panel } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { EmptyState, ErrorState, Loading } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { agents } from '../../texts/agents.ts';

type AgentRequest = Answer<'listAgentRequests'>[number];

/** A request waits for ten minutes at most. */
const EVERY_MS = 5_000;

export function AgentsPage() {
  const list = usePages('listAgentRequests', {}, { everyMs: EVERY_MS });
  return (
    <Page title={agents.title} lead={agents.lead} code={<AsCode operation="listAgentRequests" />}>
      <LiveOnly>{agents.sandbox}</LiveOnly>
      {list.items === undefined && !list.isError && <Loading />}
      {list.items === undefined && list.isError && <ErrorState error={list.error} onRetry={list.refetch} />}
      {list.items?.length === 0 && <EmptyState title={agents.none}>{agents.noneHint}</EmptyState>}
      <Stack gap="md">
        {list.items?.map((request) => (
          <Request key={request.agentRequestId} request={request} />
        ))}
        {list.hasNextPage && (
          <Button variant="default" onClick={() => list.fetchNextPage()} loading={list.isFetchingNextPage}>
            {agents.more}
          </Button>
        )}
      </Stack>
    </Page>
  );
}

function Request({ request }: { request: AgentRequest }) {
  const { client, tool, status, keyId, createdAt, expiresAt, decidedAt, decidedBy, result } = request;
  const isPending = status === 'pending';
  return (
    <Panel title={agents.asks(client, tool)} actions={<StatusBadge status={status} />}>
      <Stack gap="sm">
        <Facts
          of={[
            [agents.client, `${client} (${agents.clientHint})`],
            [agents.key, <Code key="key">{keyId}</Code>],
            [agents.requested, <Time key="requested" at={createdAt} exact />],
            [agents.expires, isPending ? <Time key="expires" at={expiresAt} exact /> : undefined],
            [agents.decided, decidedAt === null ? undefined : <Time key="decided" at={decidedAt} exact />],
            [agents.decidedBy, decidedBy ?? undefined],
            [agents.result, result === null || result === undefined ? undefined : <Json key="result" value={result} />],
          ]}
        />
        {isPending && <Pending id={request.agentRequestId} />}
      </Stack>
    </Panel>
  );
}

function Json({ value }: { value: unknown }) {
  return (
    <Code block mah="24rem" style={{ overflow: 'auto', whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
      {JSON.stringify(value, null, 2)}
    </Code>
  );
}

/** The exact call, and the buttons. The digest of the displayed call is what is approved. */
function Pending({ id }: { id: string }) {
  const { mayWrite } = useScope();
  const detail = useCall('getAgentRequest', { path: { id } });
  const stale = ['listAgentRequests', 'getAgentRequest'] as const;
  const approve = useChange('approveAgentRequest', stale);
  const decline = useChange('declineAgentRequest', stale);
  const request = detail.data;
  if (request === undefined)
    return detail.isError ? <ErrorState error={detail.error} onRetry={detail.refetch} /> : <Loading />;
  const { digest, call, recipients } = request;
  const body = (call?.body ?? {}) as { from?: string; subject?: string; text?: string };
  const isBusy = approve.isPending || decline.isPending;
  const error = approve.error ?? decline.error;
  return (
    <Stack gap="sm">
      <Facts
        of={[
          [agents.from, body.from],
          [agents.recipients(recipients.length), recipients.length === 0 ? undefined : recipients.join(', ')],
          [agents.subject, body.subject],
          [agents.text, body.text === undefined ? undefined : <Wrapped key="text" text={body.text} />],
          [agents.digest, <Wrapped key="digest" text={digest} />],
        ]}
      />
      <div>
        <Text fw={600}>{agents.call}</Text>
        <Text c="dimmed" mb="xs">
          {agents.callHint}
        </Text>
        <Json value={call} />
      </div>
      {error !== null && <Problem error={error} />}
      {mayWrite ? (
        <Button.Group>
          <Button
            loading={approve.isPending}
            disabled={isBusy}
            onClick={() => {
              decline.reset();
              approve.mutate({ path: { id }, body: { digest } });
            }}
          >
            {agents.approve}
          </Button>
          <Button
            variant="default"
            loading={decline.isPending}
            disabled={isBusy}
            onClick={() => {
              approve.reset();
              decline.mutate({ path: { id }, body: { digest } });
            }}
          >
            {agents.decline}
          </Button>
        </Button.Group>
      ) : (
        <Text c="dimmed">{agents.viewersOnly}</Text>
      )}
    </Stack>
  );
}

function Wrapped({ text }: { text: string }) {
  return <span style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>{text}</span>;
}
