/**
 * Wakes those who do a kind of work: this process where it has that role, else the nodes that share its database. A wake-up is
 * only a hint: polling finds the same work later. What wakes and what is woken are started in any order.
 */
import type { HintTopic } from '../storage/hints.ts';
import type { Parts } from './parts.ts';

export interface WakeUps {
  wake(topic: HintTopic): void;
  /** Says how this process is woken, by itself and by other nodes. */
  onWake(topic: HintTopic, wake: () => void): void;
}

export function createWakeUps({ config, hints }: Pick<Parts, 'config' | 'hints'>): WakeUps {
  const here: Partial<Record<HintTopic, () => void>> = {};
  return {
    wake: (topic) => {
      if (config.roles.includes(topic)) here[topic]?.();
      else hints.notify(topic);
    },
    onWake: (topic, wake) => {
      here[topic] = wake;
      hints.listen(topic, wake);
    },
  };
}
