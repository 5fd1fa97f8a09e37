/** Which notices the signed-in user receives by email, and who else receives them. */
import { Stack, Switch, Text } from '@mantine/core';
import { type Answer, useCall, useChange } from '../../api.ts';
import { Notice } from '../../parts/notice.tsx';
import { Panel } from '../../parts/page.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { notices as texts } from '../../texts/settings.ts';
import classes from './settings.module.css';

type Notices = Answer<'getNotices'>;
type Kind = Notices['kinds'][number];

/** Recipients that are listed by address. */
const LISTED = 5;

export function NoticesPanel() {
  const { mode, person } = useScope();
  const { data, error, refetch } = useCall('getNotices');
  return (
    <Panel title={texts.title}>
      {data === undefined && (error === null ? <Loading /> : <ErrorState error={error} onRetry={refetch} />)}
      {data !== undefined && (
        <Stack gap="md">
          <Text size="sm" c="dimmed">
            {data.yours === null ? texts.notYours : texts.lead}
          </Text>
          {data.yours !== null && isUnreachable(data, person.userId) && (
            <Notice tone="wait">{texts.unreachable(person.email)}</Notice>
          )}
          <ul className={classes.kinds}>
            {data.kinds.map((one) => (
              <KindRow key={one.kind} of={one} yours={data.yours} mayChange={mode === 'live'} />
            ))}
          </ul>
        </Stack>
      )}
    </Panel>
  );
}

/** Whether the user wants notices, but has an address that email cannot reach, such as operator@localhost. */
function isUnreachable({ yours, kinds }: Notices, userId: string): boolean {
  const wanted = kinds.filter(({ kind }) => yours?.[kind]);
  return (
    wanted.length > 0 && wanted.every(({ recipients }) => recipients.every((recipient) => recipient.userId !== userId))
  );
}

function KindRow({ of: one, yours, mayChange }: { of: Kind; yours: Notices['yours']; mayChange: boolean }) {
  const choose = useChange('chooseNotices', ['getNotices']);
  const { name, about } = texts.kinds[one.kind];
  return (
    <li>
      {yours === null ? (
        <>
          <Text size="sm" fw={550}>
            {name}
          </Text>
          <Text size="xs" c="dimmed">
            {about}
          </Text>
        </>
      ) : (
        <Switch
          label={name}
          description={about}
          checked={yours[one.kind]}
          disabled={!mayChange || choose.isPending}
          onChange={({ currentTarget }) =>
            choose.mutate({ body: { [one.kind]: currentTarget.checked } }, { onError: failed })
          }
        />
      )}
      <div className={yours === null ? classes.recipients : `${classes.recipients} ${classes.indented}`}>
        <Recipients of={one} />
      </div>
    </li>
  );
}

function Recipients({ of: { sentTo, recipients } }: { of: Kind }) {
  if (sentTo === 'none') return <Notice tone="wait">{texts.none}</Notice>;
  if (sentTo === 'operators') return <Notice tone="wait">{texts.operators}</Notice>;
  const emails = recipients.slice(0, LISTED).map(({ email }) => email);
  return <Text size="xs">{texts.sentTo(emails, recipients.length - emails.length)}</Text>;
}
