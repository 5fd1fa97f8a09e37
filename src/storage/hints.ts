/** Hints between the processes that share a database: that there is work of a kind. Polling finds the same, only later. */
import type { Running } from '../base/lifecycle.ts';

export type HintTopic = 'delivery' | 'webhooks';

export interface Hints extends Running {
  /** Notifies the other nodes. */
  notify(topic: HintTopic): void;
  /** Calls back when another node notified, or may have notified unheard. */
  listen(topic: HintTopic, heard: () => void): void;
}

/** For a process that has its database to itself. */
export const noHints: Hints = { notify: () => undefined, listen: () => undefined, stop: async () => undefined };
