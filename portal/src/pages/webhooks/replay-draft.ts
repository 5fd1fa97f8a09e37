/** The period of a replay while the user selects it. */
import { useState } from 'react';
import type { Body } from '../../api.ts';
import type { EventType } from '../../texts/event-types.ts';
import { replay } from '../../texts/webhooks.ts';
import type { Webhook } from './webhook-state.tsx';

export const SPANS = ['hour', 'day', 'week', 'all', 'own'] as const;
export type Span = (typeof SPANS)[number];

const HOUR_MS = 3_600_000;
/** `all` also reaches into the future, since the sandbox clock may be ahead. */
const BEFORE_MS = { hour: HOUR_MS, day: 24 * HOUR_MS, week: 7 * 24 * HOUR_MS, all: 400 * 24 * HOUR_MS };

interface Choice {
  span: Span;
  /** Values of date and time fields: local, without a time zone. */
  since: string;
  until: string;
  eventTypes: EventType[];
}

export interface ReplayDraft extends Choice {
  choose(span: Span): void;
  change(changed: Partial<Choice>): void;
  /** Undefined while a value is missing or invalid; `fault` says which. */
  asked: Body<'replayWebhookEvents'> | undefined;
  fault: string | undefined;
}

function localText(atMs: number): string {
  const date = new Date(atMs);
  return new Date(atMs - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function timesOf(span: Exclude<Span, 'own'>): Pick<Choice, 'since' | 'until'> {
  const nowMs = Date.now();
  const untilMs = span === 'all' ? nowMs + BEFORE_MS.all : nowMs;
  return { since: localText(nowMs - BEFORE_MS[span]), until: localText(untilMs + 1_000) };
}

function faultOf({ since, until, eventTypes }: Choice): string | undefined {
  if (eventTypes.length === 0) return replay.noTypes;
  if (since === '' || until === '') return replay.incomplete;
  return since > until ? replay.order : undefined;
}

export function useReplayDraft({ events }: Webhook): ReplayDraft {
  const [choice, setChoice] = useState((): Choice => ({ span: 'day', ...timesOf('day'), eventTypes: [...events] }));
  const { since, until, eventTypes } = choice;
  const fault = faultOf(choice);
  const asked =
    fault === undefined
      ? { since: new Date(since).toISOString(), until: new Date(until).toISOString(), eventTypes }
      : undefined;
  return {
    ...choice,
    fault,
    asked,
    choose: (span) => setChoice({ ...choice, span, ...(span === 'own' ? {} : timesOf(span)) }),
    change: (changed) => setChoice({ ...choice, ...changed }),
  };
}
