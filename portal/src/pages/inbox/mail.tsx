/** One captured message: sender and recipients, outcome, findings, and preview. */
import { Anchor, Group, Stack } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type Answer, useCall } from '../../api.ts';
import { useFresh } from '../../live.tsx';
import { Copy } from '../../parts/copy.tsx';
import { Facts, Panel } from '../../parts/page.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { useScope } from '../../scope.ts';
import { inbox, mail as texts } from '../../texts/inbox.ts';
import classes from './inbox.module.css';
import { Outcome } from './list.tsx';
import { AsTest, SimulateOutcome } from './mail-actions.tsx';
import { Views } from './mail-views.tsx';
import { isWebLink } from './web-link.ts';

type Mail = Answer<'getSandboxMessage'>;

export function OneMail({ id }: { id: string }) {
  const { mayWrite } = useScope();
  const asked = useCall('getSandboxMessage', { path: { id } });
  useFresh(['getSandboxMessage'], ({ messageId }) => messageId === id);
  if (asked.data === undefined && asked.isError) return <ErrorState error={asked.error} onRetry={asked.refetch} />;
  if (asked.data === undefined) return <Loading />;
  const mail = asked.data;
  return (
    <Stack gap="md">
      <Panel title={visible(mail.subject) || inbox.noSubject} actions={<AsTest mail={mail} />}>
        <Facts
          of={[
            [texts.from, mail.from],
            [texts.to, mail.to],
            [
              texts.sent,
              <Group key="sent" gap="xs">
                <Time at={mail.createdAt} exact /> <Outcome outcome={mail.outcome} />
                <Anchor component={Link} to={`/app/sandbox/messages/${id}`}>
                  {texts.history}
                </Anchor>
              </Group>,
            ],
          ]}
        />
        {mayWrite && <SimulateOutcome id={id} />}
      </Panel>
      <FoundInIt mail={mail} />
      <Views mail={mail} />
    </Stack>
  );
}

function FoundInIt({ mail: { codes, links } }: { mail: Mail }) {
  if (codes.length === 0 && links.length === 0) return undefined;
  const codeList = codes.map((code) => (
    <span key={code} className={classes.code}>
      <span className="mono">{code}</span> <Copy value={code} label={texts.copyCode(code)} />
    </span>
  ));
  const linkList = links.map((link) => (
    <div key={link}>
      {isWebLink(link) ? (
        <Anchor href={link} target="_blank" rel="noopener noreferrer">
          {link}
        </Anchor>
      ) : (
        link
      )}{' '}
      <Copy value={link} label={texts.copyLink} />
    </div>
  ));
  return (
    <Panel title={texts.found}>
      <Facts
        of={[
          [
            texts.codes,
            codes.length > 0 ? (
              <Group key="codes" gap="sm">
                {codeList}
              </Group>
            ) : undefined,
          ],
          [texts.links, links.length > 0 ? linkList : undefined],
        ]}
      />
    </Panel>
  );
}
