/** The settings of the account, each with its effect; owners change them, all members read them and choose their notices. */
import { Stack } from '@mantine/core';
import { useCall } from '../../api.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { LiveOnly, Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { useScope } from '../../scope.ts';
import { settings as texts } from '../../texts/settings.ts';
import { IdentityPanel } from './identity.tsx';
import { NoticesPanel } from './notices.tsx';
import { SendingPanel } from './sending.tsx';
import { VariablesPanel } from './variables.tsx';

export function SettingsPage() {
  const { mayOwn, mode, name } = useScope();
  const { data, error, refetch } = useCall('getAccount');
  const mayChange = mayOwn && mode === 'live';
  const body = data ? { ...data.settings, defaultFrom: data.settings.defaultFrom ?? '' } : {};
  return (
    <Page title={texts.title} lead={texts.lead} code={<AsCode operation="updateAccount" input={{ body }} />}>
      {data === undefined && (error === null ? <Loading /> : <ErrorState error={error} onRetry={refetch} />)}
      {data !== undefined && (
        <Stack key={name} gap="md">
          <LiveOnly>{texts.onlyLive}</LiveOnly>
          {!mayOwn && <Notice>{texts.onlyOwners}</Notice>}
          <IdentityPanel account={data} mayChange={mayChange} />
          <NoticesPanel />
          <SendingPanel settings={data.settings} mayChange={mayChange} />
          <VariablesPanel variables={data.settings.variables} mayChange={mayChange} />
        </Stack>
      )}
    </Page>
  );
}
