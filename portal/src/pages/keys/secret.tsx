/** A new secret, shown once, with instructions. */
import { Button, Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { useCall } from '../../api.ts';
import { serviceUrl } from '../../base-path.ts';
import { callOf, snippetsOf } from '../../parts/as-code.tsx';
import { Copy, Snippets } from '../../parts/copy.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Facts } from '../../parts/page.tsx';
import { useScope } from '../../scope.ts';
import { shown } from '../../texts/keys.ts';
import { secrets } from '../../texts/parts.ts';
import type { Made } from './credentials.ts';
import { smtpSnippetsOf } from './smtp-snippets.ts';

/** The first operator's address is operator@localhost, which receives no email. */
const REACHABLE = /@.+\../;

/** Returns an allowed sender and a recipient for the example. */
function useAddresses({ secret: { mode, allowedSenders } }: Made): { from: string; to: string } {
  const { person } = useScope();
  const isLive = mode === 'live';
  const domains = useCall('listDomains', { query: { limit: 100 } }, { enabled: isLive });
  const [sender] = allowedSenders;
  const verified = domains.data?.find(({ status }) => status === 'verified')?.domain;
  const from = sender?.includes('@') ? sender : `hello@${sender ?? verified ?? 'shop.example'}`;
  return { from, to: isLive && REACHABLE.test(person.email) ? person.email : 'ann@example.com' };
}

function Value({ name, value }: { name: string; value: string }) {
  return (
    <>
      <span className="mono">{value}</span> <Copy value={value} label={shown.copyOf(name)} />
    </>
  );
}

const fact = (name: string, value: string): [string, ReactNode] => [
  name,
  <Value key={name} name={name} value={value} />,
];

export function Secret({ made, onKept }: { made: Made; onKept(): void }) {
  const { account } = useScope();
  const accountId = account?.accountId ?? '';
  const { from, to } = useAddresses(made);
  const mail = { from, to, subject: 'Hello', text: 'It works.' };
  const host = location.hostname;
  const { port, tlsPort } = useCall('getAccount').data?.smtp ?? { port: 587, tlsPort: null };
  const ports = [shown.startTlsPort(port), ...(tlsPort === null ? [] : [shown.tlsPort(tlsPort)])];
  const isKey = made.kind === 'key';
  const apiKey = isKey ? (made.secret.apiKey ?? '') : '';
  const facts = isKey
    ? [fact(shown.apiKey, apiKey), fact(shown.accountId, accountId)]
    : [
        fact(shown.host, host),
        [shown.port, ports.join(', ')] as const,
        fact(shown.username, made.secret.username),
        fact(shown.password, made.secret.password),
      ];
  const snippets = isKey
    ? {
        ...snippetsOf(callOf('sendEmail', { body: mail }, accountId), apiKey),
        '.env': `POSTRIDER_URL=${serviceUrl}\nPOSTRIDER_ID=${accountId}\nPOSTRIDER_KEY=${apiKey}`,
      }
    : smtpSnippetsOf({
        ...mail,
        host,
        port,
        username: made.secret.username,
        password: made.secret.password,
      });
  return (
    <Stack gap="sm">
      <Notice tone="wait">{secrets.once}</Notice>
      <Facts of={facts} />
      {isKey && (
        <Text c="dimmed" size="xs">
          {shown.accountIdHint}
        </Text>
      )}
      <Title order={3}>{shown.snippets}</Title>
      <Snippets of={snippets} label={shown.snippets} />
      <Button onClick={onKept} style={{ alignSelf: 'flex-end' }}>
        {secrets.done}
      </Button>
    </Stack>
  );
}
