/** One refused request: what its code means, which fields to fix, and its caller. */
import { Button, Stack, Table, Text, Title } from '@mantine/core';
import { Copyable } from '../../parts/copy.tsx';
import { Facts } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { errorCodes } from '../../texts/error-codes.ts';
import { requests } from '../../texts/requests.ts';
import { callOfRequest, type RefusedRequest } from './requests.tsx';

const texts = requests.detail;
const idOf = (id: string | undefined) => id && <Copyable value={id} />;

export function RequestDetail({ of: one, onSame }: { of: RefusedRequest; onSame(): void }) {
  const meaning = errorCodes[one.code];
  return (
    <Stack gap="md">
      <div>
        <Title order={3} size="h3" mb={4}>
          {texts.said}
        </Title>
        <Text size="sm">{one.message}</Text>
      </div>
      {meaning !== undefined && meaning !== one.message && (
        <div>
          <Title order={3} size="h3" mb={4}>
            {texts.meaning}
          </Title>
          <Text size="sm">{meaning}</Text>
        </div>
      )}
      {one.details.length > 0 && <Fields of={one.details} />}
      <Facts
        of={[
          [texts.status, one.status],
          [texts.code, <Copyable key="code" value={one.code} />],
          [
            texts.call,
            <span key="call" className="mono">
              {callOfRequest(one)}
            </span>,
          ],
          [texts.when, <Time key="when" at={one.time} exact />],
          [texts.requestId, idOf(one.requestId)],
          [texts.key, idOf(one.keyId)],
          [texts.credential, idOf(one.smtpCredentialId)],
          [texts.address, idOf(one.address)],
        ]}
      />
      <Button variant="default" onClick={onSame} style={{ alignSelf: 'flex-start' }}>
        {texts.same}
      </Button>
    </Stack>
  );
}

function Fields({ of }: { of: RefusedRequest['details'] }) {
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
