/** The purpose and permissions of a new key or credential. The option with the fewest permissions comes first. */
import { Radio, Select, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { FormModal } from '../../parts/form-modal.tsx';
import { NETWORKS_AT_MOST, Tags } from '../../parts/networks.tsx';
import { useScope } from '../../scope.ts';
import { keys, making } from '../../texts/keys.ts';
import type { Kind, Wish } from './credentials.ts';

const SENDERS_AT_MOST = 20;
const DAY_MS = 86_400_000;

interface WishFormProps {
  kind: Kind;
  isBusy: boolean;
  error: Error | null;
  onSubmit(wish: Wish): void;
  onClose(): void;
}

export function WishForm({ kind, isBusy, error, onSubmit, onClose }: WishFormProps) {
  const { mode } = useScope();
  const [wish, setWish] = useState<Wish>({
    mode,
    scope: 'send',
    name: '',
    allowedSenders: [],
    allowedNetworks: [],
    lifetimeMs: null,
    deliveryReports: 'off',
  });
  const change = (changed: Partial<Wish>): void => setWish({ ...wish, ...changed });
  return (
    <FormModal
      title={making[kind]}
      size="lg"
      submit={making.submit}
      isBusy={isBusy}
      error={error}
      onSubmit={() => onSubmit(wish)}
      onClose={onClose}
    >
      {kind === 'key' && (
        <TextInput
          label={making.name}
          description={making.nameHint}
          maxLength={200}
          data-autofocus
          value={wish.name}
          onChange={({ currentTarget }) => change({ name: currentTarget.value })}
        />
      )}
      <Choice
        label={making.mode}
        value={wish.mode}
        of={mode === 'live' ? (['live', 'sandbox'] as const) : (['sandbox'] as const)}
        names={keys.modes}
        hints={making.modeHint}
        onChange={(chosen) => change({ mode: chosen })}
      />
      {kind === 'key' && (
        <Choice
          label={making.scope}
          value={wish.scope}
          of={['send', 'full'] as const}
          names={keys.scopes}
          hints={making.scopeHint}
          onChange={(scope) => change({ scope })}
        />
      )}
      {kind === 'smtp' && (
        <Choice
          label={making.reports}
          value={wish.deliveryReports}
          of={['off', 'failures'] as const}
          names={making.reportsNames}
          hints={making.reportsHint}
          onChange={(deliveryReports) => change({ deliveryReports })}
        />
      )}
      <Tags
        label={making.senders}
        description={making.sendersHint}
        placeholder={making.sendersPlaceholder}
        maxTags={SENDERS_AT_MOST}
        value={wish.allowedSenders}
        onChange={(allowedSenders) => change({ allowedSenders })}
      />
      <Tags
        label={making.networks}
        description={making.networksHint}
        placeholder={making.networksPlaceholder}
        maxTags={NETWORKS_AT_MOST}
        value={wish.allowedNetworks}
        onChange={(allowedNetworks) => change({ allowedNetworks })}
      />
      <Select
        label={making.expires}
        data={Object.entries(making.expiries).map(([value, label]) => ({ value, label }))}
        value={wish.lifetimeMs === null ? '' : String(wish.lifetimeMs / DAY_MS)}
        onChange={(days) => change({ lifetimeMs: days ? Number(days) * DAY_MS : null })}
      />
    </FormModal>
  );
}

interface ChoiceProps<V extends string> {
  label: string;
  value: V;
  of: readonly V[];
  names: Record<V, string>;
  hints: Record<V, string>;
  onChange(value: V): void;
}

function Choice<V extends string>({ label, value, of, names, hints, onChange }: ChoiceProps<V>) {
  return (
    <Radio.Group label={label} value={value} onChange={(chosen) => onChange(chosen as V)}>
      <Stack gap="xs" mt={4}>
        {of.map((one) => (
          <Radio key={one} value={one} label={names[one]} description={hints[one]} />
        ))}
      </Stack>
    </Radio.Group>
  );
}
