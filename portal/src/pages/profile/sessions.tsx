/** The user's sessions; all except this one can be ended. */
import { Button, Group } from '@mantine/core';
import { useState } from 'react';
import { type Answer, useChange, usePages } from '../../api.ts';
import { IconX } from '../../icons.ts';
import { Badge } from '../../parts/badge.tsx';
import { Panel } from '../../parts/page.tsx';
import { RowAction } from '../../parts/row-action.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { withUndo } from '../../parts/undo.tsx';
import { sessions as texts } from '../../texts/profile.ts';
import { browserName } from './browser-name.ts';

type Session = Answer<'listSessions'>[number];

export function SessionsPanel() {
  const list = usePages('listSessions', {}, { pageSize: 100 });
  const [ended, setEnded] = useState<readonly string[]>([]);
  const end = useChange('endSession', ['listSessions']);
  const rows = list.items?.filter(({ sessionId }) => !ended.includes(sessionId));
  const others = rows?.filter(({ current }) => !current) ?? [];
  const askEnd = (which: readonly Session[], message: string): void => {
    const ids = which.map(({ sessionId }) => sessionId);
    setEnded((before) => [...before, ...ids]);
    withUndo({
      message,
      run: () => Promise.all(ids.map((id) => end.mutateAsync({ path: { id } }))),
      onUndo: () => setEnded((before) => before.filter((id) => !ids.includes(id))),
    });
  };
  return (
    <Panel
      title={texts.title}
      actions={
        others.length > 0 && (
          <Button variant="default" onClick={() => askEnd(others, texts.othersEnded)}>
            {texts.endOthers}
          </Button>
        )
      }
    >
      <Rows
        label={texts.title}
        columns={COLUMNS}
        rowActions={(session) =>
          !session.current && (
            <RowAction
              label={texts.endOf(browserName(session.userAgent) ?? texts.unknown, session.address)}
              icon={<IconX size={15} />}
              onClick={() => askEnd([session], texts.ended)}
            />
          )
        }
        list={{ ...list, items: rows }}
        keyOf={({ sessionId }) => sessionId}
        empty={{ title: texts.none }}
      />
    </Panel>
  );
}

const COLUMNS: readonly Column<Session>[] = [
  {
    name: texts.browser,
    phone: 'title',
    cell: ({ userAgent, current }) => (
      <Group gap="xs" wrap="nowrap">
        <span title={userAgent ?? undefined}>{browserName(userAgent) ?? texts.unknown}</span>
        {current && <Badge tone="good">{texts.current}</Badge>}
      </Group>
    ),
  },
  { name: texts.address, phone: 'detail', cell: ({ address }) => address },
  { name: texts.began, cell: ({ createdAt }) => <Time at={createdAt} />, width: '8rem' },
  { name: texts.used, phone: 'time', cell: ({ lastSeenAt }) => <Time at={lastSeenAt} />, width: '8rem' },
  { name: texts.ends, cell: ({ expiresAt }) => <Time at={expiresAt} />, width: '8rem' },
];
