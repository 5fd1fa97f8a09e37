/** The logo at the top of notices: shown, replaced, and removed. */
import { Button, FileButton, Group, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { useCall, useChange } from '../../api.ts';
import { IconTrash, IconUpload } from '../../icons.ts';
import { Problem } from '../../parts/problem.tsx';
import { done, failed } from '../../parts/undo.tsx';
import { identity as texts } from '../../texts/settings.ts';
import classes from './settings.module.css';

const ACCEPTED = 'image/png,image/jpeg,image/gif,image/webp';
const MAXIMUM_BYTES = 65_536;

async function base64Of(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}

export function Logo({ hasLogo, mayChange }: { hasLogo: boolean; mayChange: boolean }) {
  const logo = useCall('getLogo', {}, { enabled: hasLogo }).data;
  const set = useChange('setLogo', ['getAccount', 'getLogo']);
  const remove = useChange('removeLogo', ['getAccount']);
  const [isTooLarge, setTooLarge] = useState(false);
  const choose = async (file: File | null): Promise<void> => {
    if (file === null) return;
    setTooLarge(file.size > MAXIMUM_BYTES);
    if (file.size > MAXIMUM_BYTES) return set.reset();
    set.mutate({ body: { content: await base64Of(file) } }, { onSuccess: () => done(texts.logoSaved) });
  };
  return (
    <Stack gap="xs">
      <div>
        <Text size="sm" fw={550}>
          {texts.logo}
        </Text>
        <Text size="xs" c="dimmed">
          {texts.logoHint}
        </Text>
      </div>
      <Problem error={isTooLarge ? new Error(texts.logoTooLarge) : set.error} />
      {hasLogo && logo !== undefined && (
        <div className={classes.logo}>
          <img src={`data:${logo.contentType};base64,${logo.content}`} alt={texts.logoAlt} />
        </div>
      )}
      {!hasLogo && !mayChange && (
        <Text size="sm" c="dimmed">
          {texts.noLogo}
        </Text>
      )}
      {mayChange && (
        <Group gap="xs">
          <FileButton onChange={(file) => void choose(file)} accept={ACCEPTED}>
            {(props) => (
              <Button {...props} variant="default" loading={set.isPending} leftSection={<IconUpload size={14} />}>
                {hasLogo ? texts.replaceLogo : texts.uploadLogo}
              </Button>
            )}
          </FileButton>
          {hasLogo && (
            <Button
              variant="default"
              loading={remove.isPending}
              leftSection={<IconTrash size={14} />}
              onClick={() => remove.mutate({}, { onSuccess: () => done(texts.logoRemoved), onError: failed })}
            >
              {texts.removeLogo}
            </Button>
          )}
        </Group>
      )}
    </Stack>
  );
}
