/** Shared parts of both lists: the buttons to create, rotate and revoke, and the dialog for the first two. */
import { Button, Group, Text } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import type { Mode } from '../../api.ts';
import { IconPlus, IconRotateClockwise, IconTrash } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { Badge } from '../../parts/badge.tsx';
import { networkText } from '../../parts/networks.tsx';
import { RowAction } from '../../parts/row-action.tsx';
import { type Column, Second } from '../../parts/rows.tsx';
import { Time, useNow } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { keys } from '../../texts/keys.ts';
import { type Credential, type Kind, senderText, useMayChange } from './credentials.ts';
import { SecretDialog } from './secret-dialog.tsx';

export interface Flow {
  make(): void;
  rotate(old: Credential): void;
  revoke(old: Credential): void;
  dialog: ReactNode;
}

export function useFlow(kind: Kind, revoke: (old: Credential) => void): Flow {
  const [open, setOpen] = useState<{ old: Credential | undefined }>();
  return {
    make: () => setOpen({ old: undefined }),
    rotate: (old) => setOpen({ old }),
    revoke,
    dialog: open !== undefined && (
      <SecretDialog kind={kind} old={open.old} onRevoke={revoke} onClose={() => setOpen(undefined)} />
    ),
  };
}

interface ToolbarProps {
  flow: Flow;
  /** Absent if none can be created. */
  label: string | undefined;
  operation: 'listApiKeys' | 'listSmtpCredentials';
}

export function Toolbar({ flow, label, operation }: ToolbarProps) {
  const { mayOwn } = useScope();
  return (
    <Group gap="xs" mb="sm">
      {mayOwn && label !== undefined && (
        <Button leftSection={<IconPlus size={14} />} onClick={flow.make}>
          {label}
        </Button>
      )}
      <AsCode operation={operation} />
    </Group>
  );
}

type Restricted = Pick<Credential, 'allowedSenders' | 'allowedNetworks'>;

/** The allowed senders, and the allowed networks below them. */
export function Restrictions({ of: { allowedSenders, allowedNetworks } }: { of: Restricted }) {
  return (
    <>
      {senderText(allowedSenders)}
      <Second>{networkText(allowedNetworks)}</Second>
    </>
  );
}

interface Timed {
  mode: Mode;
  expiresAt: string | null;
}

/** The mode, or that it has expired: neither mode accepts it then. */
function ModeOrExpired({ of: { mode, expiresAt } }: { of: Timed }) {
  const now = useNow();
  if (expiresAt !== null && Date.parse(expiresAt) <= now)
    return (
      <>
        <Badge tone="calm">{keys.expired}</Badge>
        <Second>{keys.modes[mode]}</Second>
      </>
    );
  return <Badge tone={mode === 'live' ? 'good' : 'wait'}>{keys.modes[mode]}</Badge>;
}

export const modeColumn = <T extends Timed>(): Column<T> => ({
  name: keys.mode,
  phone: 'badge',
  width: '6.5rem',
  text: ({ mode }) => mode,
  cell: (one) => <ModeOrExpired of={one} />,
});

interface Used {
  lastUsedAt: string | null;
  lastUsedAddress: string | null;
}

/** Shows when it was last used, and below that the address of the client. */
function LastUse({ of: { lastUsedAt, lastUsedAddress } }: { of: Used }) {
  if (lastUsedAt === null)
    return (
      <Text span c="dimmed" inherit>
        {keys.never}
      </Text>
    );
  return (
    <>
      <Time at={lastUsedAt} />
      <Second>{lastUsedAddress}</Second>
    </>
  );
}

interface Made {
  createdAt: string;
  expiresAt: string | null;
}

/** Shows when it was created, and below that when it expires. */
function Lifetime({ of: { createdAt, expiresAt } }: { of: Made }) {
  const now = useNow();
  return (
    <>
      <Time at={createdAt} exact />
      {expiresAt !== null && (
        <Second>
          {Date.parse(expiresAt) <= now ? keys.expired : keys.expires} <Time at={expiresAt} exact />
        </Second>
      )}
    </>
  );
}

export const createdColumn = <T extends Made>(): Column<T> => ({
  name: keys.created,
  width: '9rem',
  text: ({ createdAt }) => createdAt,
  cell: (made) => <Lifetime of={made} />,
});

/** A column of the CSV file only. */
export const expiresColumn = <T extends Made>(): Column<T> => ({
  name: keys.expires,
  text: ({ expiresAt }) => expiresAt,
  cell: () => null,
});

/** The column of the last use, with the time and the address in the CSV file. */
export const lastUseColumn = <T extends Used>(): Column<T> => ({
  name: keys.lastUsed,
  phone: 'time',
  width: '9rem',
  text: ({ lastUsedAt, lastUsedAddress }) => (lastUsedAt === null ? null : `${lastUsedAt} ${lastUsedAddress}`),
  cell: (used) => <LastUse of={used} />,
});

interface RowActionsProps {
  credential: Credential;
  flow: Flow;
  mayRotate?: boolean;
}

export function RowActions({ credential, flow, mayRotate = true }: RowActionsProps) {
  const mayChange = useMayChange();
  if (!mayChange(credential.mode)) return null;
  return (
    <>
      {mayRotate && (
        <RowAction
          label={keys.rotate(credential.label)}
          icon={<IconRotateClockwise size={15} />}
          onClick={() => flow.rotate(credential)}
        />
      )}
      <RowAction
        label={keys.revoke(credential.label)}
        icon={<IconTrash size={15} />}
        onClick={() => flow.revoke(credential)}
      />
    </>
  );
}
