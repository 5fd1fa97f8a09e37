/** Notices above a template: why it is read-only, that there are unsaved changes, that another user has saved. */
import { Button } from '@mantine/core';
import { Link, useNavigate } from '@tanstack/react-router';
import { useChange } from '../../api.ts';
import { Notice } from '../../parts/notice.tsx';
import { Time } from '../../parts/time.tsx';
import { failed, withUndo } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { page } from '../../texts/templates.ts';
import { bodyOf, contentOf, type Template } from './content.ts';
import type { Draft } from './draft.ts';

interface NotesProps {
  template: Template;
  draft: Draft;
  isLive: boolean;
  mayChange: boolean;
  onCompare(): void;
}

export function Notes({ template, draft, isLive, mayChange, onCompare }: NotesProps) {
  const { mode, mayWrite } = useScope();
  return (
    <>
      {!mayWrite && <Notice tone="calm">{page.readOnly}</Notice>}
      {mayWrite && mode === 'sandbox' && isLive && <LiveNote template={template} />}
      {mayChange && <UnsavedNote draft={draft} onCompare={onCompare} version={template.version} />}
    </>
  );
}

/** In the sandbox, a copy of the same name overrides the live template. */
function LiveNote({ template }: { template: Template }) {
  const navigate = useNavigate();
  const make = useChange('createTemplate', ['listTemplates']);
  const copy = (): void => {
    make.mutate(
      { body: bodyOf(contentOf(template)) },
      {
        onSuccess: ({ templateId }) => void navigate({ to: `/app/sandbox/templates/${templateId}` as string }),
        onError: failed,
      },
    );
  };
  return (
    <Notice
      tone="calm"
      actions={
        <>
          <Button variant="default" component={Link} to={`/app/live/templates/${template.templateId}`}>
            {page.toLive}
          </Button>
          <Button variant="default" loading={make.isPending} onClick={copy}>
            {page.copy}
          </Button>
        </>
      }
    >
      {page.live} {page.liveHint}
    </Notice>
  );
}

/** Discards unsaved changes; they can be restored for a moment. */
export function discardChanges(draft: Draft): void {
  const { content } = draft;
  draft.discard();
  withUndo({ message: page.discarded, run: () => Promise.resolve(), onUndo: () => draft.bringBack(content) });
}

/** Not shown for changes of this visit, so that nothing moves while typing: the badge next to the title shows those. */
function UnsavedNote({ draft, version, onCompare }: { draft: Draft; version: number; onCompare(): void }) {
  const { isDirty, isBehind, isKept, restoredAt } = draft;
  if (!isDirty || (restoredAt === undefined && !isBehind && isKept)) return null;
  return (
    <Notice
      tone={isBehind || !isKept ? 'wait' : 'note'}
      role="status"
      actions={
        <>
          <Button variant="default" onClick={onCompare}>
            {page.compare}
          </Button>
          <Button variant="default" onClick={() => discardChanges(draft)}>
            {page.discard}
          </Button>
        </>
      }
    >
      {restoredAt !== undefined && (
        <>
          {page.draftRestored} <Time at={new Date(restoredAt).toISOString()} exact />.{' '}
        </>
      )}
      {isBehind && `${page.behind(version)} `}
      {!isKept && page.notKept}
    </Notice>
  );
}
