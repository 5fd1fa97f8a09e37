/** One request: its caller and its message; if it failed, what its code means, and which fields to fix. */
import { Anchor, Button, Stack, Table, Text, Title } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { Copyable } from '../../parts/copy.tsx';
import { pathOfMail } from '../../parts/mail-path.ts';
import { Facts } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { errorCodes } from '../../texts/error-codes.ts';
import { requests } from '../../texts/requests.ts';
import { callOfRequest, type LoggedRequest, RequestStatus } from './logged-request.tsx';

const texts = requests.detail;
const idOf = (id: string | undefined) => id && <Copyable value={id} />;

export function RequestDetail({ of: one, onSame }: { of: LoggedRequest; onSame(): void }) {
  const { mode } = useScope();
  const meaning = one.code === undefined ? undefined : errorCodes[one.code];
  return (
    <Stack gap="md">
      {one.message !== undefined && (
        <div>
          <Title order={3} size="h3" mb={4}>
            {texts.said}
          </Title>
          <Text size="sm">{one.message}</Text>
        </div>
      )}
      {meaning !== undefined && meaning !== one.message && (
        <div>
          <Title order={3} size="h3" mb={4}>
            {texts.meaning}
          </Title>
          <Text size="sm">{meaning}</Text>
        </div>
      )}
      {one.details !== undefined && one.details.length > 0 && <Fields of={one.details} />}
      <Facts
        of={[
          [texts.status, <RequestStatus key="status" of={one} />],
          [texts.code, idOf(one.code)],
          [
            texts.call,
            <span key="call" className="mono">
              {callOfRequest(one)}
            </span>,
          ],
          [texts.path, one.endpoint?.includes(':') ? idOf(one.path) : undefined],
          [
            texts.message,
            one.messageId && (
              <Anchor component={Link} to={pathOfMail(mode, one.messageId)} className="mono">
                {one.messageId}
              </Anchor>
            ),
          ],
          [texts.when, <Time key="when" at={one.time} exact />],
          [texts.duration, one.durationMs === undefined ? undefined : requests.duration(one.durationMs)],
          [texts.requestId, idOf(one.requestId)],
          [texts.key, idOf(one.keyId)],
          [texts.credential, idOf(one.smtpCredentialId)],
          [texts.address, idOf(one.address)],
          [texts.userAgent, one.userAgent],
        ]}
      />
      {one.code !== undefined && (
        <Button variant="default" onClick={onSame} style={{ alignSelf: 'flex-start' }}>
          {texts.same}
        </Button>
      )}
    </Stack>
  );
}

function Fields({ of }: { of: NonNullable<LoggedRequest['details']> }) {
  return (
    <div>
      <Title order={3} size="h3" mb={4}>
        {texts.fields}
      </Title>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th scope="col">{texts.field}</Table.Th>
            <Table.Th scope="col">{texts.problem}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {of.map(({ field, message, line, column }) => (
            <Table.Tr key={`${field} ${message} ${line} ${column}`}>
              <Table.Td className="mono">{field}</Table.Td>
              <Table.Td>
                {message}
                {line !== undefined && ` (${texts.place(line, column)})`}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}
