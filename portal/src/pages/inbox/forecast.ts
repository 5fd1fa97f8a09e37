/** Predicts from waiting messages what advancing the sandbox clock will do. */
import type { Message } from '../../../../clients/typescript/src/schema.ts';

export type Waiting = Pick<Message, 'status' | 'sendAt' | 'nextAttemptAt' | 'expiresAt'>;

export interface Forecast {
  attempts: number;
  scheduled: number;
  expiries: number;
}

export function forecastOf(waiting: readonly Waiting[], nowMs: number, seconds: number): Forecast {
  const untilMs = nowMs + seconds * 1_000;
  const isDue = (time: string | undefined): boolean => time !== undefined && Date.parse(time) <= untilMs;
  const counted = (isCounted: (message: Waiting) => boolean): number => waiting.filter(isCounted).length;
  return {
    attempts: counted(
      ({ status, nextAttemptAt }) => status !== 'scheduled' && (nextAttemptAt === undefined || isDue(nextAttemptAt)),
    ),
    scheduled: counted(({ status, sendAt }) => status === 'scheduled' && isDue(sendAt)),
    expiries: counted(({ expiresAt }) => isDue(expiresAt)),
  };
}
