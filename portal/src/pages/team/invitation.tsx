/** Invites a user to the account; if the service cannot send email, the link is shown to copy. */
import { Alert, Button, Group, Modal, Radio, Stack, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { type Answer, useChange } from '../../api.ts';
import { Code } from '../../parts/copy.tsx';
import { Problem } from '../../parts/problem.tsx';
import { done } from '../../parts/undo.tsx';
import { roles, invitation as texts } from '../../texts/team.ts';
import { type Member, ROLES } from './member-columns.tsx';

type Invited = Answer<'inviteUser'>;

export function Invitation({ isOpen, onClose }: { isOpen: boolean; onClose(): void }) {
  const [invited, setInvited] = useState<Invited>();
  const close = (): void => {
    onClose();
    setInvited(undefined);
  };
  return (
    <Modal
      opened={isOpen}
      onClose={close}
      title={invited === undefined ? texts.title : texts.linkTitle(invited.email)}
      closeOnClickOutside={invited === undefined}
    >
      {invited?.inviteUrl === undefined ? (
        <InvitationForm
          onCancel={close}
          onInvited={(answer) => {
            if (answer.inviteUrl !== undefined) return setInvited(answer);
            done(answer.status === 'active' ? texts.added(answer.email) : texts.sent(answer.email));
            close();
          }}
        />
      ) : (
        <Stack gap="sm">
          <Alert p="xs">{texts.linkLead}</Alert>
          <Code code={invited.inviteUrl} label={texts.link} />
          <Group justify="flex-end">
            <Button onClick={close}>{texts.close}</Button>
          </Group>
        </Stack>
      )}
    </Modal>
  );
}

function InvitationForm({ onCancel, onInvited }: { onCancel(): void; onInvited(invited: Invited): void }) {
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<Member['role']>('member');
  const invite = useChange('inviteUser', ['listUsers']);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    invite.mutate({ body: { email: email.trim(), role } }, { onSuccess: onInvited });
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <Problem error={invite.error} />
        <TextInput
          label={texts.email}
          description={texts.emailHint}
          type="email"
          autoComplete="off"
          required
          data-autofocus
          value={email}
          onChange={({ currentTarget }) => setEmail(currentTarget.value)}
        />
        <Radio.Group label={texts.role} value={role} onChange={(value) => setRole(value as Member['role'])}>
          <Stack gap="xs" mt="xs">
            {ROLES.map((value) => (
              <Radio key={value} value={value} label={roles[value].name} description={roles[value].may} />
            ))}
          </Stack>
        </Radio.Group>
        <Group justify="flex-end">
          <Button variant="default" onClick={onCancel}>
            {texts.cancel}
          </Button>
          <Button type="submit" loading={invite.isPending} disabled={email.trim() === ''}>
            {texts.submit}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
