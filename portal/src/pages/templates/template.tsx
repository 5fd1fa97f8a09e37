/**
 * One template: the editor next to a live preview, its versions and its usage. Unsaved changes are stored in this browser; saving creates a
 * version. Live templates are read-only in the sandbox, as in the API.
 */
import { Button, SegmentedControl, Tooltip } from '@mantine/core';
import { useNavigate, useParams } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, useRef, useState } from 'react';
import { useCall } from '../../api.ts';
import { IconDots, IconSend, IconShare, IconTrash } from '../../icons.ts';
import { ActionMenu, MenuAction } from '../../parts/action-menu.tsx';
import { AsCode } from '../../parts/as-code.tsx';
import { Badge } from '../../parts/badge.tsx';
import { Page } from '../../parts/page.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { done } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { list, page, share, test } from '../../texts/templates.ts';
import type { Template } from './content.ts';
import { type Draft, useDraft } from './draft.ts';
import { useIsLive } from './modes.ts';
import { discardChanges, Notes } from './notes.tsx';
import { useRemove } from './remove.ts';
import { type Samples, useSamples } from './samples.ts';
import { SaveButton } from './save.tsx';
import { SendTest } from './send-test.tsx';
import { WriteView } from './write.tsx';

const SharePreview = lazy(async () => ({ default: (await import('./share.tsx')).SharePreview }));
const UseView = lazy(async () => ({ default: (await import('./use.tsx')).UseView }));
const VersionsView = lazy(async () => ({ default: (await import('./versions.tsx')).VersionsView }));

export function TemplatePage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const { name } = useScope();
  const template = useCall('getTemplate', { path: { id } });
  const isLive = useIsLive(id);
  if (template.data === undefined && template.isError)
    return <ErrorState error={template.error} onRetry={template.refetch} isPage />;
  if (template.data === undefined || isLive === undefined) return <Loading />;
  return <OneTemplate key={`${name} ${id}`} template={template.data} isLive={isLive} />;
}

type View = keyof typeof page.views;

/** Tells the user that changes are kept when leaving the page, and asks to stay if the browser could not store them. */
function useLeaving({ isDirty, isKept, content }: Draft): void {
  const said = useRef<string | undefined>(undefined);
  said.current = isDirty ? content.name : undefined;
  useEffect(
    () => () => {
      if (said.current !== undefined) done(page.left(said.current));
    },
    [],
  );
  useEffect(() => {
    if (!isDirty || isKept) return;
    const ask = (event: BeforeUnloadEvent): void => event.preventDefault();
    addEventListener('beforeunload', ask);
    return () => removeEventListener('beforeunload', ask);
  }, [isDirty, isKept]);
}

function OneTemplate({ template, isLive }: { template: Template; isLive: boolean }) {
  const { mode, mayWrite, person } = useScope();
  const [search, setSearch] = useSearchState();
  const draft = useDraft(template);
  const mayChange = mayWrite && (mode === 'live' || !isLive);
  const samples = useSamples(template, mayChange);
  useLeaving(draft);
  const view: View = search.view !== undefined && search.view in page.views ? (search.view as View) : 'write';
  const show = (next: string): void => setSearch({ view: next === 'write' ? undefined : next });
  return (
    <Page
      title={template.name}
      parent={{ href: `/app/${mode}/templates`, name: list.title }}
      badge={<Badges template={template} draft={draft} isLive={isLive} />}
      primary={mayChange && <SaveButton template={template} draft={draft} />}
      actions={<Actions template={template} draft={draft} samples={samples} mayChange={mayChange} />}
      code={
        <AsCode
          operation="sendEmail"
          input={{
            body: { to: person.email, templateId: template.name, templateVariables: { ...samples.chosen.values } },
          }}
        />
      }
    >
      <Notes
        template={template}
        draft={draft}
        isLive={isLive}
        mayChange={mayChange}
        onCompare={() => show('versions')}
      />
      <SegmentedControl
        value={view}
        onChange={show}
        aria-label={page.view}
        mb={'md'}
        data={Object.entries(page.views).map(([value, label]) => ({ value, label }))}
      />
      {view === 'write' && <WriteView template={template} draft={draft} samples={samples} mayChange={mayChange} />}
      <Suspense fallback={<Loading />}>
        {view === 'versions' && <VersionsView template={template} draft={draft} mayChange={mayChange} />}
        {view === 'use' && <UseView template={template} />}
      </Suspense>
    </Page>
  );
}

function Badges({ template, draft, isLive }: { template: Template; draft: Draft; isLive: boolean }) {
  return (
    <>
      <Badge tone="calm">{page.version(template.version)}</Badge>
      {!isLive && <Badge tone="wait">{page.sandboxOnly}</Badge>}
      <span role="status">
        {draft.isDirty && (
          <Tooltip label={page.unsavedHint} multiline maw="16rem">
            <span>
              <Badge tone="note">{page.unsaved}</Badge>
            </span>
          </Tooltip>
        )}
      </span>
    </>
  );
}

interface ActionsProps {
  template: Template;
  draft: Draft;
  samples: Samples;
  mayChange: boolean;
}

function Actions({ template, draft, samples, mayChange }: ActionsProps) {
  const { mode, mayWrite } = useScope();
  const navigate = useNavigate();
  const remove = useRemove();
  const [isSending, setSending] = useState(false);
  const [isSharing, setSharing] = useState(false);
  return (
    <>
      {mayWrite && (
        <Button variant="default" leftSection={<IconShare size={14} />} onClick={() => setSharing(true)}>
          {share.open}
        </Button>
      )}
      {mayWrite && (
        <Button variant="default" leftSection={<IconSend size={14} />} onClick={() => setSending(true)}>
          {test.open}
        </Button>
      )}
      {mayChange && (
        <ActionMenu
          button={
            <Button variant="default" px={6} aria-label={page.more}>
              <IconDots size={16} />
            </Button>
          }
        >
          <MenuAction isDisabled={!draft.isDirty} onClick={() => discardChanges(draft)}>
            {page.discard}
          </MenuAction>
          <MenuAction
            icon={<IconTrash size={14} />}
            isDanger
            onClick={() => {
              remove(template);
              void navigate({ to: `/app/${mode}/templates` as string });
            }}
          >
            {page.remove}
          </MenuAction>
        </ActionMenu>
      )}
      {isSharing && (
        <Suspense>
          <SharePreview template={template} draft={draft} samples={samples} onClose={() => setSharing(false)} />
        </Suspense>
      )}
      {isSending && <SendTest template={template} draft={draft} samples={samples} onClose={() => setSending(false)} />}
    </>
  );
}
