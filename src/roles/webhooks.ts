/** The webhooks role: carries events to the endpoints of accounts. */
import type { HttpClient } from '../net/http-client.ts';
import { type Notify, startWebhooks, type Webhooks } from '../webhooks/webhooks.ts';
import type { Parts } from './parts.ts';

export function startWebhooksRole(parts: Parts, http: HttpClient, notify: Notify): Webhooks {
  const { database, clock, log, secretKey, metrics } = parts;
  return startWebhooks({ database, http, clock, log, secretKey, metrics, notify });
}
