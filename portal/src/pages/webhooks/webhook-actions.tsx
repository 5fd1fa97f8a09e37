/** Actions on a webhook: test, replay, edit, enable or disable, rotate the secret, delete. */
import { ActionIcon, Button, Menu } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useChange } from '../../api.ts';
import {
  IconDots,
  IconHistory,
  IconKey,
  IconPencil,
  IconPlayerPause,
  IconPlayerPlay,
  IconSend,
  IconShieldCheck,
  IconTrash,
} from '../../icons.ts';
import { ActionMenu, MenuAction } from '../../parts/action-menu.tsx';
import { useRemoval } from '../../parts/removal.ts';
import { done, failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { replay, rotation, testEvent, webhookPage, webhooks } from '../../texts/webhooks.ts';
import type { Webhook } from './webhook-state.tsx';

interface WebhookActionsProps {
  webhook: Webhook;
  /** Opens a dialog by its name in the URL. */
  onOpen(dialog: 'test' | 'edit' | 'replay' | 'secret' | 'signature'): void;
}

/** Changes only whether the webhook is enabled, so that it keeps what others change at the same time. */
function useEnable({ webhookId, enabled }: Webhook) {
  const update = useChange('updateWebhook', ['getWebhook', 'listWebhooks']);
  const toggle = (): void =>
    update.mutate(
      { path: { id: webhookId }, body: { enabled: !enabled } },
      { onSuccess: () => done(enabled ? webhookPage.disabledNow : webhookPage.enabledNow), onError: failed },
    );
  return { toggle, isChanging: update.isPending };
}

/** Returns to the list, which hides the webhook unless the deletion is undone. */
function useRemove({ webhookId }: Webhook): () => void {
  const { mode } = useScope();
  const navigate = useNavigate();
  const { remove } = useRemoval('deleteWebhook', ['listWebhooks']);
  return () => {
    remove(webhookId, { path: { id: webhookId } }, webhookPage.removed);
    void navigate({ to: `/app/${mode}/webhooks` });
  };
}

export function WebhookActions({ webhook, onOpen }: WebhookActionsProps) {
  const { mayWrite } = useScope();
  const { toggle, isChanging } = useEnable(webhook);
  if (!mayWrite)
    return (
      <Button variant="default" leftSection={<IconShieldCheck size={14} />} onClick={() => onOpen('signature')}>
        {webhooks.check}
      </Button>
    );
  return (
    <>
      {!webhook.enabled && (
        <Button leftSection={<IconPlayerPlay size={14} />} loading={isChanging} onClick={toggle}>
          {webhookPage.enable}
        </Button>
      )}
      <Button variant="default" leftSection={<IconSend size={14} />} onClick={() => onOpen('test')}>
        {testEvent.action}
      </Button>
      <Button variant="default" leftSection={<IconHistory size={14} />} onClick={() => onOpen('replay')}>
        {replay.action}
      </Button>
      <MoreActions webhook={webhook} onOpen={onOpen} onDisable={toggle} />
    </>
  );
}

interface MoreActionsProps extends Pick<WebhookActionsProps, 'webhook' | 'onOpen'> {
  onDisable(): void;
}

function MoreActions({ webhook, onOpen, onDisable }: MoreActionsProps) {
  const remove = useRemove(webhook);
  // The webhook of an inbound route is edited and deleted with its route.
  const isOwn = webhook.inboundRouteId === undefined;
  return (
    <ActionMenu
      button={
        <ActionIcon variant="default" aria-label={webhookPage.more}>
          <IconDots size={16} />
        </ActionIcon>
      }
    >
      {isOwn && (
        <MenuAction icon={<IconPencil size={14} />} onClick={() => onOpen('edit')}>
          {webhookPage.edit}
        </MenuAction>
      )}
      <MenuAction icon={<IconKey size={14} />} onClick={() => onOpen('secret')}>
        {rotation.action}
      </MenuAction>
      <MenuAction icon={<IconShieldCheck size={14} />} onClick={() => onOpen('signature')}>
        {webhooks.check}
      </MenuAction>
      {webhook.enabled && (
        <MenuAction icon={<IconPlayerPause size={14} />} onClick={onDisable}>
          {webhookPage.disable}
        </MenuAction>
      )}
      {isOwn && (
        <>
          <Menu.Divider />
          <MenuAction icon={<IconTrash size={14} />} isDanger onClick={remove}>
            {webhookPage.remove}
          </MenuAction>
        </>
      )}
    </ActionMenu>
  );
}
