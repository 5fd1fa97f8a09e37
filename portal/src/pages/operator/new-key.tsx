/** Creates an operator key; it is shown once, until the operator confirms that it is saved. The smallest permission is preselected. */
import { Button, Checkbox, Modal, Select, Stack, TextInput, Title } from '@mantine/core';
import { useState } from 'react';
import { type Answer, type Body, useChange } from '../../api.ts';
import { serviceUrl } from '../../base-path.ts';
import { Copyable, Snippets } from '../../parts/copy.tsx';
import { useFocusBack } from '../../parts/focus-back.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { NETWORKS_AT_MOST, Tags } from '../../parts/networks.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Facts } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { operatorKeys, newOperatorKey as texts } from '../../texts/operator.ts';
import { secrets } from '../../texts/parts.ts';

type Scope = Body<'createOperatorKey'>['scopes'][number];

const SCOPES = ['read', 'write'] as const;
const DAY_MS = 86_400_000;
/** Days until the key expires. */
const EXPIRIES = ['30', '90', '365', 'never'] as const;
type Expiry = (typeof EXPIRIES)[number];

export function NewOperatorKey({ onClose }: { onClose(): void }) {
  useFocusBack();
  const create = useChange('createOperatorKey', ['listOperatorKeys']);
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<Scope[]>(['read']);
  const [allowedNetworks, setNetworks] = useState<string[]>([]);
  const [expiry, setExpiry] = useState<Expiry>('90');
  const made = create.data;
  const submit = (): void => {
    const expiresAt = expiry === 'never' ? undefined : new Date(Date.now() + Number(expiry) * DAY_MS).toISOString();
    create.mutate({
      body: { name: name.trim(), scopes, allowedNetworks, ...(expiresAt !== undefined && { expiresAt }) },
    });
  };
  if (made !== undefined)
    return (
      <Modal
        opened
        onClose={onClose}
        title={texts.shownTitle}
        size="lg"
        withCloseButton={false}
        closeOnClickOutside={false}
        closeOnEscape={false}
      >
        <NewKey of={made} onKept={onClose} />
      </Modal>
    );
  return (
    <FormModal
      title={texts.title}
      submit={texts.submit}
      isBusy={create.isPending}
      isDisabled={name.trim() === '' || scopes.length === 0}
      error={create.error}
      onSubmit={submit}
      onClose={onClose}
    >
      <TextInput
        label={operatorKeys.name}
        description={texts.nameHint}
        required
        data-autofocus
        maxLength={200}
        value={name}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
      />
      <Checkbox.Group label={operatorKeys.scopes} value={scopes} onChange={(chosen) => setScopes(chosen as Scope[])}>
        <Stack gap="xs" mt={4}>
          {SCOPES.map((scope) => (
            <Checkbox
              key={scope}
              value={scope}
              label={operatorKeys.scopeNames[scope]}
              description={texts.scopeHints[scope]}
            />
          ))}
        </Stack>
      </Checkbox.Group>
      <Tags
        label={texts.networks}
        description={texts.networksHint}
        placeholder={texts.networksPlaceholder}
        maxTags={NETWORKS_AT_MOST}
        value={allowedNetworks}
        onChange={setNetworks}
      />
      <Select
        label={operatorKeys.expires}
        data={EXPIRIES.map((value) => ({ value, label: texts.expiries[value] }))}
        value={expiry}
        onChange={(chosen) => chosen !== null && setExpiry(chosen)}
      />
    </FormModal>
  );
}

function NewKey({ of: made, onKept }: { of: Answer<'createOperatorKey'>; onKept(): void }) {
  const { name, operatorKey, scopes, expiresAt } = made;
  const call = scopes.includes('read')
    ? `curl ${serviceUrl}/operator/queue \\\n  -H 'Authorization: Bearer ${operatorKey}'`
    : `curl -X POST ${serviceUrl}/operator/accounts \\\n  -H 'Authorization: Bearer ${operatorKey}' \\\n  -H 'Content-Type: application/json' \\\n  -d '{"name":"Acme"}'`;
  return (
    <Stack gap="sm">
      <Notice tone="wait">{secrets.once}</Notice>
      <Facts
        of={[
          [operatorKeys.name, name],
          [texts.key, <Copyable key="key" value={operatorKey} />],
          [operatorKeys.scopes, scopes.map((scope) => operatorKeys.scopeNames[scope]).join(', ')],
          [operatorKeys.expires, expiresAt === null ? operatorKeys.never : <Time key="expires" at={expiresAt} exact />],
        ]}
      />
      <Title order={3}>{texts.snippets}</Title>
      <Snippets
        of={{ curl: call, '.env': `POSTRIDER_URL=${serviceUrl}\nPOSTRIDER_OPERATOR_KEY=${operatorKey}` }}
        label={texts.snippets}
      />
      <Button onClick={onKept} style={{ alignSelf: 'flex-end' }}>
        {secrets.done}
      </Button>
    </Stack>
  );
}
