/** Hints between the processes that share a database: that there is work of a kind. Polling finds the same, only later. */
import type { Running } from '../base/lifecycle.ts';

export type HintTopic = 'delivery' | 'webhooks';

export interface Hints extends Running {
  /** Tells the other nodes. */
  tell(topic: HintTopic): void;
  /** Calls back when another node told, or may have told unheard. */
  listen(topic: HintTopic, heard: () => void): void;
}

/** For a process that has its database to itself. */
export const noHints: Hints = { tell: () => undefined, listen: () => undefined, stop: async () => undefined };
