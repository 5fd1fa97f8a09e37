/** The page of a link to a rendered template, without login. */
import '../../mantine-pages.css';
import { Text } from '@mantine/core';
import { callerOf } from '../../api.ts';
import { SharedFrame, SharedPage } from '../../parts/shared-page.tsx';
import { exactTime } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { sharing } from '../../texts/share.ts';
import { shared as texts } from '../../texts/templates.ts';
import { RenderedPanel } from './rendered.tsx';
import { versionOf } from './share-links.tsx';

export function SharedTemplatePage() {
  return (
    <SharedPage
      title={texts.pageTitle}
      name="getSharedTemplate"
      read={(headers, signal) => callerOf().call('getSharedTemplate', { headers }, { signal })}
    >
      {(template) => (
        <SharedFrame title={visible(template.subject ?? '') || template.name}>
          <Text c="dimmed" mb="md" style={{ overflowWrap: 'anywhere' }}>
            {texts.readOnly(template.name, versionOf(template))} {texts.rendered(exactTime(template.createdAt))}{' '}
            {sharing.validUntil(exactTime(template.validUntil))}
          </Text>
          <RenderedPanel rendered={template} hidesSubject={Boolean(template.subject)} />
        </SharedFrame>
      )}
    </SharedPage>
  );
}
