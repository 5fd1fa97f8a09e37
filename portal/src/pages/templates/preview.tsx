/** The result of the template with the selected sample values. */
import { Text } from '@mantine/core';
import { Notice } from '../../parts/notice.tsx';
import { useScope } from '../../scope.ts';
import { previewing } from '../../texts/templates.ts';
import type { Content } from './content.ts';
import type { Preview } from './previewing.ts';
import { RenderedPanel } from './rendered.tsx';

export function PreviewPanel({ preview, content }: { preview: Preview; content: Content }) {
  const { mayWrite } = useScope();
  const { missing } = preview;
  return (
    <RenderedPanel rendered={mayWrite ? preview.shown : content}>
      <div role="status">
        {!mayWrite && (
          <Text size="xs" c="dimmed" mb="xs">
            {previewing.viewer}
          </Text>
        )}
        {preview.error !== null && (
          <Notice tone="bad" title={previewing.failed}>
            {(preview.error as Error).message}
          </Notice>
        )}
        {missing.length > 0 && preview.error === null && (
          <Notice tone="wait" title={previewing.missing(missing)}>
            {previewing.missingHint}
          </Notice>
        )}
      </div>
    </RenderedPanel>
  );
}
