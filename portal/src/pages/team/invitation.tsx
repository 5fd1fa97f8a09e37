/** Invites a user to the account; if the service cannot send email, the link is shown to copy. */
import { Alert, Button, Group, Modal, Radio, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { type Answer, useChange } from '../../api.ts';
import { Code } from '../../parts/copy.tsx';
import { useFocusBack } from '../../parts/focus-back.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { done } from '../../parts/undo.tsx';
import { roles, invitation as texts } from '../../texts/team.ts';
import { type Member, ROLES } from './member-columns.tsx';

type Invited = Answer<'inviteUser'>;

export function Invitation({ onClose }: { onClose(): void }) {
  useFocusBack();
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<Member['role']>('member');
  const [invited, setInvited] = useState<Invited>();
  const invite = useChange('inviteUser', ['listUsers']);
  const submit = (): void =>
    invite.mutate(
      { body: { email: email.trim(), role } },
      {
        onSuccess(answer) {
          if (answer.inviteUrl !== undefined) return setInvited(answer);
          done(answer.status === 'active' ? texts.added(answer.email) : texts.sent(answer.email));
          onClose();
        },
      },
    );
  if (invited?.inviteUrl !== undefined)
    return (
      <Modal opened onClose={onClose} title={texts.linkTitle(invited.email)} closeOnClickOutside={false}>
        <Stack gap="sm">
          <Alert p="xs">{texts.linkLead}</Alert>
          <Code code={invited.inviteUrl} label={texts.link} />
          <Group justify="flex-end">
            <Button onClick={onClose}>{texts.close}</Button>
          </Group>
        </Stack>
      </Modal>
    );
  return (
    <FormModal
      title={texts.title}
      submit={texts.submit}
      isBusy={invite.isPending}
      isDisabled={email.trim() === ''}
      error={invite.error}
      onSubmit={submit}
      onClose={onClose}
    >
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
    </FormModal>
  );
}
