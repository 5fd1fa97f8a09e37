/** Creates a link that shows this template with the selected sample values, and lists the valid links. */
import { Modal, Select, Stack } from '@mantine/core';
import { useChange } from '../../api.ts';
import { useFocusBack } from '../../parts/focus-back.ts';
import { Notice } from '../../parts/notice.tsx';
import { ShareForm } from '../../parts/share-form.tsx';
import { share as texts } from '../../texts/templates.ts';
import { sourcesOf, type Template } from './content.ts';
import type { Draft } from './draft.ts';
import type { Samples } from './samples.ts';
import { SHARE_LISTS, ShareLinks } from './share-links.tsx';

interface SharePreviewProps {
  template: Template;
  draft: Draft;
  samples: Samples;
  onClose(): void;
}

export function SharePreview({ template: { templateId }, draft, samples, onClose }: SharePreviewProps) {
  const share = useChange('shareTemplate', SHARE_LISTS);
  useFocusBack();
  return (
    <Modal opened onClose={onClose} title={texts.title}>
      <Stack gap="lg">
        <ShareForm
          lead={texts.lead}
          isBusy={share.isPending}
          create={(expiresInSeconds) =>
            share.mutateAsync({
              path: { id: templateId },
              body: {
                expiresInSeconds,
                templateVariables: { ...samples.chosen.values },
                ...(draft.isDirty && { content: sourcesOf(draft.content) }),
              },
            })
          }
          onDone={onClose}
        >
          <Select
            label={texts.set}
            value={samples.chosen.name}
            data={samples.sets.map(({ name }) => name)}
            onChange={(name) => samples.choose(name!)}
          />
          {draft.isDirty && <Notice tone="wait">{texts.unsaved}</Notice>}
        </ShareForm>
        <ShareLinks templateId={templateId} />
      </Stack>
    </Modal>
  );
}
