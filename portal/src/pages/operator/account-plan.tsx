/** Settings of an account that only operators change: its plan, message size, and limits. */
import { Button, Group, NumberInput, Select, Stack, Text } from '@mantine/core';
import type { FormEvent, ReactNode } from 'react';
import { type Answer, type Body, useChange } from '../../api.ts';
import { useEdits } from '../../parts/edits.ts';
import { Panel } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { count } from '../../parts/time.tsx';
import { done } from '../../parts/undo.tsx';
import { operators, account as texts } from '../../texts/operator.ts';
import classes from './operator.module.css';

type Account = Answer<'getOperatorAccount'>;
type Limit = keyof Account['limits'];
type Used = keyof Account['limitUsage'];

/** Share of a limit from which on its use is marked. */
const NEAR = 0.8;

export function isNearLimit({ limits, limitUsage }: Account, name: Used): boolean {
  const [used, most] = [limitUsage[name], limits[name]];
  return used !== null && most !== null && used > 0 && used >= most * NEAR;
}

/** Returns how much of a limit is used; undefined for limits whose use is not known. */
function usedOf(account: Account, name: Limit): ReactNode {
  const used = name in account.limitUsage ? account.limitUsage[name as Used] : null;
  if (used === null) return undefined;
  const isNear = isNearLimit(account, name as Used);
  return <span className={isNear ? classes.near : undefined}>{texts.limitUsed(count(used))}</span>;
}

const MB = 1_000_000;
const [LEAST_MB, MOST_MB] = [2, 40];
const HIGHEST_LIMIT = 1_000_000;
const HIGHEST_QUOTA = 1_000_000_000;

const highestOf = (name: Limit): number => (name.startsWith('messagesPer') ? HIGHEST_QUOTA : HIGHEST_LIMIT);
const PLANS = (['free', 'paid', 'enterprise'] as const).map((value) => ({ value, label: operators.plans[value] }));

/** The fields of the form; one for each limit. */
interface Given extends Record<Limit, number | string | null> {
  plan: Account['plan'];
  sizeMb: number | string;
}

/** Sends only changed fields, so that two operators do not overwrite each other's changes. */
function changesOf(account: Account, { plan, sizeMb, ...limits }: Given): Body<'setAccount'> {
  const sizeBytes = Math.round(Number(sizeMb) * MB);
  const changed = (Object.keys(account.limits) as Limit[]).filter((name) => limits[name] !== account.limits[name]);
  return {
    ...(plan !== account.plan && { plan }),
    ...(sizeBytes !== account.approvedEmailBytes && { approvedEmailBytes: sizeBytes }),
    ...(changed.length > 0 && {
      limits: Object.fromEntries(changed.map((name) => [name, limits[name] === null ? null : Number(limits[name])])),
    }),
  };
}

export function AccountPlan({ account }: { account: Account }) {
  const {
    values: given,
    edit,
    saved,
  } = useEdits<Given>({
    plan: account.plan,
    sizeMb: account.approvedEmailBytes / MB,
    ...account.limits,
  });
  const save = useChange('setAccount', ['getOperatorAccount', 'listAccounts', 'listServiceAuditEntries']);
  const body = changesOf(account, given);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    save.mutate(
      { path: { id: account.accountId }, body },
      {
        onSuccess() {
          saved();
          done(texts.saved);
        },
      },
    );
  };
  return (
    <form onSubmit={submit}>
      <Panel title={texts.plan}>
        <Stack gap="sm">
          <Problem error={save.error} />
          <Group align="flex-start">
            <Select
              label={texts.planOf}
              data={PLANS}
              value={given.plan}
              onChange={(plan) => plan !== null && edit({ plan })}
            />
            <NumberInput
              label={texts.approved}
              description={texts.approvedHint}
              inputWrapperOrder={['label', 'input', 'description']}
              min={Math.min(LEAST_MB, account.approvedEmailBytes / MB)}
              max={MOST_MB}
              decimalScale={6}
              required
              value={given.sizeMb}
              onChange={(sizeMb) => edit({ sizeMb })}
            />
          </Group>
          <Text size="sm" fw={550}>
            {texts.limits}
          </Text>
          <Text size="sm" c="dimmed">
            {texts.limitsHint}
          </Text>
          <div className={classes.limits}>
            {(Object.keys(account.limits) as Limit[]).map((name) => (
              <NumberInput
                key={name}
                label={texts.limitNames[name]}
                description={usedOf(account, name)}
                min={0}
                max={highestOf(name)}
                allowDecimal={false}
                thousandSeparator=","
                value={given[name] ?? ''}
                onChange={(value) => edit({ [name]: value === '' ? null : value })}
              />
            ))}
          </div>
          <Group>
            <Button type="submit" loading={save.isPending} disabled={Object.keys(body).length === 0}>
              {texts.save}
            </Button>
          </Group>
        </Stack>
      </Panel>
    </form>
  );
}
