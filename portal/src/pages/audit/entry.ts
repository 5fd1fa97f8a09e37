/** An entry of the audit log, and how its author is named. */
import type { Answer } from '../../api.ts';
import { audit } from '../../texts/audit.ts';

export type AuditEntry = Answer<'listAuditEntries'>[number];

export const actorOf = ({ actor }: AuditEntry): string => actor.name ?? actor.id ?? audit.kinds[actor.kind];
