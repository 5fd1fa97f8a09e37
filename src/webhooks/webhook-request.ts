/** Helpers of the webhook routes: which webhook a request means, and the responses if there is none. */
import { type Caller, ownerOf } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { EVENT_TYPES } from '../events/events.ts';
import type { RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { oneOf } from '../http/validate.ts';
import type { HttpClient } from '../net/http-client.ts';
import type { Database } from '../storage/database.ts';
import type { EndpointKey } from './store.ts';

export interface WebhookRouteDeps {
  database: Database;
  clock: Clock;
  /** The service's key that encrypts secrets. */
  secretKey: Uint8Array;
  http: HttpClient;
  /** Returns why a URL may not be saved, as the end of a sentence that starts with `url` (net/guarded-connector.ts). */
  checkUrl(url: string): Promise<string | undefined>;
  /** Notifies the worker of new work. */
  nudge(): void;
}

export type Request<B = undefined, Q = unknown> = RouteRequest<Caller, B, Q>;

export const eventName = oneOf([...EVENT_TYPES]);
export const nullable = <T extends ReturnType<typeof Type.String>>(schema: T) => Type.Union([schema, Type.Null()]);

export const noSuchEndpoint = refuse(failure('NOT_FOUND', { message: 'No webhook has this id.' }));
export const isDisabled = refuse(
  failure('CONFLICT', { message: 'The webhook is disabled. Enable it before you retry deliveries.' }),
);

export const isOfRoute = refuse(
  failure('CONFLICT', {
    message: 'This webhook belongs to an inbound route. Change or delete the route instead.',
  }),
);

export function keyOf(request: Request<unknown>): EndpointKey {
  return { ...ownerOf(request), id: request.params.id ?? '' };
}
