/** Whether the account requires two-factor authentication; owners change it after they see which members have no second factor. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { Link, useLocation } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { useChange } from '../../api.ts';
import { IconShield } from '../../icons.ts';
import { Badge } from '../../parts/badge.tsx';
import { Confirmed } from '../../parts/confirmed.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { Panel } from '../../parts/page.tsx';
import { Loading } from '../../parts/states.tsx';
import { done, failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { requirement as texts } from '../../texts/two-factor.ts';
import { hasSecondFactor, type Member } from './member-columns.tsx';
import classes from './team.module.css';

interface TwoFactorProps {
  members: readonly Member[];
  hasMore: boolean;
  onMore(): unknown;
  mayChange: boolean;
}

export function TwoFactorPanel({ members, hasMore, onMore, mayChange }: TwoFactorProps) {
  const { account } = useScope();
  const isRequired = account?.twoFactorRequired === true;
  const [isAsking, setAsking] = useState(false);
  const protectedMembers = members.filter(hasSecondFactor).length;
  const optionalLead = hasMore ? texts.optionalLeadLong : texts.optionalLead(protectedMembers, members.length);
  return (
    <Panel
      title={texts.title}
      actions={<Badge tone={isRequired ? 'good' : 'calm'}>{isRequired ? texts.required : texts.optional}</Badge>}
    >
      <Stack gap="sm">
        <Text size="sm">{isRequired ? texts.requiredLead : optionalLead}</Text>
        {mayChange && (isRequired ? <Stop /> : <Ask onAsk={() => setAsking(true)} />)}
      </Stack>
      {isAsking && <Requirement members={members} hasMore={hasMore} onMore={onMore} onClose={() => setAsking(false)} />}
    </Panel>
  );
}

/** The button that requires it; before, what the owner's own session lacks. */
function Ask({ onAsk }: { onAsk(): void }) {
  const { person, mode } = useScope();
  const { pathname } = useLocation();
  const { missing } = person.twoFactor;
  if (missing !== undefined)
    return (
      <>
        <Text size="sm">{missing === 'setup' ? texts.ownFirst : texts.ownSignIn}</Text>
        <Group>
          {missing === 'setup' ? (
            <Button variant="default" component={Link} to={`/app/${mode}/profile`}>
              {texts.toProfile}
            </Button>
          ) : (
            <Button variant="default" component={Link} to="/sign-in" search={{ next: pathname } as never}>
              {texts.signIn}
            </Button>
          )}
        </Group>
      </>
    );
  return (
    <Group>
      <Button variant="default" leftSection={<IconShield size={14} />} onClick={onAsk}>
        {texts.require}
      </Button>
    </Group>
  );
}

function Requirement({ members, hasMore, onMore, onClose }: Omit<TwoFactorProps, 'mayChange'> & { onClose(): void }) {
  const change = useChange('requireTwoFactor', ['getSession', 'getAccount', 'listUsers']);
  useEffect(() => {
    if (hasMore) onMore();
  }, [hasMore, onMore]);
  const require = (): void =>
    change.mutate(
      { body: { required: true } },
      {
        onSuccess() {
          done(texts.requiredNow);
          onClose();
        },
      },
    );
  return (
    <FormModal
      title={texts.requireTitle}
      submit={texts.confirm}
      isBusy={change.isPending}
      isDisabled={hasMore}
      error={change.error}
      onSubmit={require}
      onClose={onClose}
    >
      <Text size="sm">{texts.requireLead}</Text>
      {hasMore ? <Loading /> : <Lacking members={members.filter((member) => !hasSecondFactor(member))} />}
    </FormModal>
  );
}

function Lacking({ members }: { members: readonly Member[] }) {
  if (members.length === 0) return <Text size="sm">{texts.noneLacking}</Text>;
  return (
    <div>
      <Text size="sm" fw={550}>
        {texts.lacking(members.length)}
      </Text>
      <ul className={classes.lacking}>
        {members.map(({ userId, email }) => (
          <li key={userId}>{email}</li>
        ))}
      </ul>
      <Text size="xs" c="dimmed">
        {texts.provider}
      </Text>
    </div>
  );
}

function Stop() {
  const change = useChange('requireTwoFactor', ['getSession', 'getAccount', 'listUsers']);
  return (
    <Group>
      <Confirmed
        label={texts.stop}
        icon={<IconShield size={14} />}
        effect={texts.stopEffect}
        confirm={texts.stopConfirm}
        isBusy={change.isPending}
        run={() => change.mutateAsync({ body: { required: false } }).then(() => done(texts.optionalNow), failed)}
      />
    </Group>
  );
}
