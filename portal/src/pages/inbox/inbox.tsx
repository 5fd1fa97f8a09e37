/** The sandbox inbox: the list on the left, the selected message on the right; on a phone one after the other. */
import { Anchor, Button } from '@mantine/core';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { useChange } from '../../api.ts';
import { IconTrash } from '../../icons.ts';
import { useFresh } from '../../live.tsx';
import { AsCode } from '../../parts/as-code.tsx';
import { Connection } from '../../parts/connection.tsx';
import { Filters } from '../../parts/filters.tsx';
import { Page } from '../../parts/page.tsx';
import { SearchField } from '../../parts/search-field.tsx';
import { EmptyState } from '../../parts/states.tsx';
import { withUndo } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { inbox } from '../../texts/inbox.ts';
import { ClockButton } from './clock-button.tsx';
import classes from './inbox.module.css';
import { type InboxFilter, MailList } from './list.tsx';
import { OneMail } from './mail.tsx';

export function InboxPage() {
  const { mode, name } = useScope();
  if (mode === 'sandbox') return <Inbox key={name} />;
  const action = (
    <Button component={Link} to="/app/sandbox/inbox">
      {inbox.toSandbox}
    </Button>
  );
  return (
    <Page title={inbox.title}>
      <EmptyState title={inbox.inLive} action={action}>
        {inbox.inLiveHint}
      </EmptyState>
    </Page>
  );
}

function useFilter(): InboxFilter {
  const [{ to, subject, tag }] = useSearchState();
  return useMemo(
    () => ({ to: to || undefined, subject: subject || undefined, tag: tag || undefined }),
    [to, subject, tag],
  );
}

function Inbox() {
  const { mayWrite } = useScope();
  const { id }: { id?: string } = useParams({ strict: false });
  const filter = useFilter();
  const state = useFresh(['listSandboxInbox']);
  const [isEmptied, setEmptied] = useState(false);
  return (
    <Page
      title={inbox.title}
      lead={inbox.lead}
      badge={<Connection state={state} />}
      primary={mayWrite && <ClockButton />}
      actions={mayWrite && <EmptyButton isEmptied={isEmptied} onChange={setEmptied} />}
      code={<AsCode operation="listSandboxInbox" input={{ query: filter }} />}
    >
      <div className={classes.bench} data-open={id !== undefined || undefined}>
        <div className={classes.list}>
          <InboxFilters />
          <MailList filter={filter} chosen={id} isEmptied={isEmptied} />
        </div>
        <div className={classes.mail}>
          {id === undefined ? (
            <EmptyState title={inbox.choose}>{inbox.chooseHint}</EmptyState>
          ) : (
            <>
              <Anchor component={Link} to="/app/sandbox/inbox" search={true as never} className={classes.back}>
                {inbox.back}
              </Anchor>
              <OneMail key={id} id={id} />
            </>
          )}
        </div>
      </div>
    </Page>
  );
}

function InboxFilters() {
  return (
    <div className={classes.filters}>
      <Filters label={inbox.filters} of={['to', 'subject', 'tag']}>
        <SearchField name="to" label={inbox.to} width="9rem" />
        <SearchField name="subject" label={inbox.subject} width="6rem" />
        <SearchField name="tag" label={inbox.tag} width="5rem" />
      </Filters>
    </div>
  );
}

function EmptyButton({ isEmptied, onChange }: { isEmptied: boolean; onChange(isEmptied: boolean): void }) {
  const empty = useChange('emptySandboxInbox', ['listSandboxInbox', 'getSandboxMessage']);
  const navigate = useNavigate();
  const start = (): void => {
    onChange(true);
    void navigate({ to: '/app/sandbox/inbox', search: true as never });
    withUndo({
      message: inbox.emptied,
      run: async () => {
        await empty.mutateAsync({});
        onChange(false);
      },
      onUndo: () => onChange(false),
    });
  };
  return (
    <Button variant="default" disabled={isEmptied} leftSection={<IconTrash size={14} />} onClick={start}>
      {inbox.empty}
    </Button>
  );
}
