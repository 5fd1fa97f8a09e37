/**
 * Keeps what was said in one attempt, bounded: 60 lines of 500 characters. When there are more, the first 40 and the
 * last 19 stay, because a failure shows at the end. Secrets and content are never given to it.
 */
import type { DialogueLine } from './smtp-types.ts';

const MAX_LINES = 60;
const KEPT_AT_START = 40;
const MAX_CHARACTERS = 500;
const CONTROLS = /[\x00-\x1f\x7f]/g;

export interface Dialogue {
  readonly lines: DialogueLine[];
  record(direction: 'C' | 'S', text: string): void;
}

export function startDialogue(): Dialogue {
  const lines: DialogueLine[] = [];
  const start = performance.now();
  return {
    lines,
    record: (direction, text) => {
      const atMs = Math.round(performance.now() - start);
      const short = text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS - 1)}…` : text;
      if (lines.length === MAX_LINES) {
        lines.splice(KEPT_AT_START, 2, { atMs: lines[KEPT_AT_START + 1]!.atMs, direction: 'S', text: '…' });
      }
      lines.push({ atMs, direction, text: short.replace(CONTROLS, '?') });
    },
  };
}
