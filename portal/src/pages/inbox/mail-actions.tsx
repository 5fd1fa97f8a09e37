/** Actions on a captured message: generate a test that waits for it, and simulate its next outcome. */
import { Autocomplete, Button, Modal, Text } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { type Answer, useChange } from '../../api.ts';
import { serviceUrl } from '../../base-path.ts';
import { IconFlask, IconPlayerPlay } from '../../icons.ts';
import { Snippets } from '../../parts/copy.tsx';
import { done, failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { asTest, simulate } from '../../texts/inbox.ts';
import { testsOf } from './as-test.ts';
import classes from './inbox.module.css';
import { isWebLink } from './web-link.ts';

export function AsTest({ mail }: { mail: Answer<'getSandboxMessage'> }) {
  const { account } = useScope();
  const [isOpen, setOpen] = useState(false);
  const tests = testsOf({
    url: serviceUrl,
    accountId: account?.accountId ?? '',
    to: mail.to,
    subject: mail.subject,
    hasCode: mail.codes.length > 0,
    hasLink: mail.links.some(isWebLink),
  });
  return (
    <>
      <Button variant="default" leftSection={<IconFlask size={14} />} onClick={() => setOpen(true)}>
        {asTest.open}
      </Button>
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={asTest.title} size="xl">
        <Text c="dimmed" mb="sm">
          {asTest.hint}
        </Text>
        <Snippets of={tests} label={asTest.title} />
      </Modal>
    </>
  );
}

export function SimulateOutcome({ id }: { id: string }) {
  const [outcome, setOutcome] = useState('bounced');
  const simulating = useChange('simulateSandboxOutcome', ['getSandboxMessage', 'listSandboxInbox', 'getMessage']);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    simulating.mutate(
      { path: { id }, body: { outcome } },
      { onSuccess: () => done(simulate.simulated), onError: failed },
    );
  };
  return (
    <form onSubmit={submit} className={classes.simulate}>
      <Autocomplete
        size="xs"
        label={simulate.label}
        description={simulate.hint}
        data={[...simulate.choices]}
        filter={({ options }) => options}
        value={outcome}
        onChange={setOutcome}
      />
      <Button
        type="submit"
        variant="default"
        disabled={outcome.trim() === ''}
        loading={simulating.isPending}
        leftSection={<IconPlayerPlay size={14} />}
      >
        {simulate.submit}
      </Button>
    </form>
  );
}
