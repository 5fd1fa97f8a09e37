/** Default sender, template variables without a value, and content retention. */
import { Button, Group, Radio, Stack, TextInput } from '@mantine/core';
import type { FormEvent } from 'react';
import { type Answer, useChange } from '../../api.ts';
import { useEdits } from '../../parts/edits.ts';
import { Panel } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { done } from '../../parts/undo.tsx';
import { settings as texts } from '../../texts/settings.ts';

type Settings = Answer<'getAccount'>['settings'];

const MISSING = ['error', 'empty', 'keep'] as const;
const RETAINED = ['none', '7d', '30d'] as const;

export function SendingPanel({ settings, mayChange }: { settings: Settings; mayChange: boolean }) {
  const {
    values: given,
    edit,
    saved,
  } = useEdits({
    defaultFrom: settings.defaultFrom ?? '',
    missingVariables: settings.missingVariables,
    retainContent: settings.retainContent,
  });
  const save = useChange('updateAccount', ['getAccount']);
  const { missingVariables, retainContent } = given;
  const defaultFrom = given.defaultFrom.trim();
  const body = {
    ...(defaultFrom !== (settings.defaultFrom ?? '') && { defaultFrom }),
    ...(missingVariables !== settings.missingVariables && { missingVariables }),
    ...(retainContent !== settings.retainContent && { retainContent }),
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    save.mutate(
      { body },
      {
        onSuccess() {
          saved();
          done(texts.saved);
        },
      },
    );
  };
  return (
    <Panel title={texts.defaults}>
      <form onSubmit={submit}>
        <Stack gap="md">
          <Problem error={save.error} />
          <TextInput
            label={texts.defaultFrom}
            description={texts.defaultFromHint}
            disabled={!mayChange}
            maw="32rem"
            value={given.defaultFrom}
            onChange={({ currentTarget }) => edit({ defaultFrom: currentTarget.value })}
          />
          <Choice
            label={texts.missing}
            hint={texts.missingHint}
            values={MISSING}
            of={texts.missingValues}
            mayChange={mayChange}
            value={missingVariables}
            onChange={(value) => edit({ missingVariables: value })}
          />
          <Choice
            label={texts.retain}
            hint={texts.retainHint}
            values={RETAINED}
            of={texts.retainValues}
            mayChange={mayChange}
            value={retainContent}
            onChange={(value) => edit({ retainContent: value })}
          />
          {mayChange && (
            <Group>
              <Button type="submit" loading={save.isPending} disabled={Object.keys(body).length === 0}>
                {texts.save}
              </Button>
            </Group>
          )}
        </Stack>
      </form>
    </Panel>
  );
}

interface ChoiceProps<V extends string> {
  label: string;
  hint: string;
  values: readonly V[];
  of: Readonly<Record<V, { name: string; does: string }>>;
  value: V;
  mayChange: boolean;
  onChange(value: V): void;
}

function Choice<V extends string>({ label, hint, values, of, value, mayChange, onChange }: ChoiceProps<V>) {
  return (
    <Radio.Group label={label} description={hint} value={value} onChange={(chosen) => onChange(chosen as V)}>
      <Stack gap="xs" mt="xs">
        {values.map((one) => (
          <Radio key={one} value={one} label={of[one].name} description={of[one].does} disabled={!mayChange} />
        ))}
      </Stack>
    </Radio.Group>
  );
}
