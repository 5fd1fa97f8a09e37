/** The templates, webhooks, domains and suppressed addresses of the account that match a text. */
import { useCall } from '../api.ts';
import { IconShield, IconTemplate, IconWebhook, IconWorld } from '../icons.ts';

/** Per kind. */
const SHOWN_AT_MOST = 5;
/** More are found on the pages of their lists. */
const READ_AT_MOST = 100;

export interface FoundResource {
  id: string;
  name: string;
  /** Below /app/live or /app/sandbox. */
  path: string;
  search?: Record<string, string>;
  icon: typeof IconWorld;
}

export function useResources(text: string, isEnabled: boolean): FoundResource[] {
  const settings = { enabled: isEnabled };
  const page = { query: { limit: READ_AT_MOST } };
  const templates = useCall('listTemplates', page, settings).data ?? [];
  const webhooks = useCall('listWebhooks', page, settings).data ?? [];
  const domains = useCall('listDomains', page, settings).data ?? [];
  const suppressions =
    useCall('listSuppressions', { query: { email: text, limit: SHOWN_AT_MOST } }, { ...settings, keepsLast: true })
      .data ?? [];
  if (!isEnabled) return [];
  const matching = (found: FoundResource[]): FoundResource[] =>
    found.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase())).slice(0, SHOWN_AT_MOST);
  return [
    ...matching(
      templates.map(({ templateId: id, name }) => ({ id, name, path: `/templates/${id}`, icon: IconTemplate })),
    ),
    ...matching(
      domains.map(({ domainId: id, domain }) => ({ id, name: domain, path: `/domains/${id}`, icon: IconWorld })),
    ),
    ...matching(
      webhooks.map(({ webhookId: id, url }) => ({ id, name: url, path: `/webhooks/${id}`, icon: IconWebhook })),
    ),
    ...suppressions.map(({ email }) => ({
      id: `suppression ${email}`,
      name: email,
      path: '/suppressions',
      search: { email },
      icon: IconShield,
    })),
  ];
}
