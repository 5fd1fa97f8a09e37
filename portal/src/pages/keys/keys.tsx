/** The API keys and SMTP credentials of an account, each in its own list. */
import { Tabs } from '@mantine/core';
import { LiveOnly, Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { keys } from '../../texts/keys.ts';
import { ApiKeys } from './api-keys.tsx';
import { SmtpCredentials } from './smtp-credentials.tsx';

export function KeysPage() {
  const { mayOwn } = useScope();
  const [{ tab }, setSearch] = useSearchState();
  return (
    <Page title={keys.title} lead={keys.lead}>
      {mayOwn ? <LiveOnly>{keys.sandbox}</LiveOnly> : <Notice>{keys.ownersOnly}</Notice>}
      <Tabs
        value={tab === 'smtp' ? 'smtp' : 'api'}
        onChange={(value) => setSearch({ tab: value === 'smtp' ? 'smtp' : undefined })}
        keepMounted={false}
      >
        <Tabs.List aria-label={keys.tabs} mb="md">
          <Tabs.Tab value="api">{keys.apiTab}</Tabs.Tab>
          <Tabs.Tab value="smtp">{keys.smtpTab}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="api">
          <ApiKeys />
        </Tabs.Panel>
        <Tabs.Panel value="smtp">
          <SmtpCredentials />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
