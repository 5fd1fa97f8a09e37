/** An event on its way to one endpoint, and what is recorded of it. */
import type { Mode } from '../base/mode.ts';
import type { EventType } from '../events/events.ts';
import type { Job } from '../work/work.ts';

export interface WebhookJob extends Job {
  attempts: number;
  accountId: string;
  mode: Mode;
  webhookId: string;
  eventSeq: number;
  /** Sandbox: what the account's clock is ahead of the real time. */
  clockOffsetMs: number;
}

export interface EventText {
  seq: number;
  id: string;
  type: EventType;
  /** Unix ms. */
  at: number;
  /** The JSON body, the same bytes at every attempt. */
  body: string;
}

export interface Settled {
  seq: number;
  fence: number;
  accountId: string;
  mode: Mode;
  webhookId: string;
  eventSeq: number;
  eventId: string;
  eventType: EventType;
  /** `gone`: failed, and the endpoint asked for no more. */
  result: 'succeeded' | 'failed' | 'retry' | 'gone';
  /** False when no request was made. */
  tried: boolean;
  /** Where the request went. */
  url: string | null;
  /** As atMs by the clock of the mode. */
  nextAttemptMs: number | null;
  responseStatus: number | null;
  responseStart: string | null;
  error: string | null;
  latencyMs: number | null;
  atMs: number;
}
