/** A request of the log: its call and its status. */
import type { Answer } from '../../api.ts';
import { Badge } from '../../parts/badge.tsx';
import { requests } from '../../texts/requests.ts';

export type LoggedRequest = Answer<'listRequests'>[number];

export const callOfRequest = ({ endpoint, verb }: LoggedRequest): string => endpoint ?? verb ?? requests.unknownVerb;

export function RequestStatus({ of: { status } }: { of: LoggedRequest }) {
  return <Badge tone={status >= 500 ? 'bad' : status >= 400 ? 'wait' : 'good'}>{status}</Badge>;
}
