/** Why requests about templates are refused. */
import { type Failure, failure, refuse } from '../base/failure.ts';
import { outdated } from '../http/patch.ts';
import type { TemplateRefusal } from './store.ts';

export const noSuchTemplate = refuse(failure('NOT_FOUND', { message: 'No template has this id.' }));

/** Returns the refusal of a value that the state of other templates does not allow. */
export const conflict = (field: string, message: string): Failure =>
  failure('CONFLICT', { message, details: [{ field, message }] });

export const REFUSALS: Record<TemplateRefusal, Failure> = {
  'not-found': noSuchTemplate.failure,
  'is-live': failure('FORBIDDEN', {
    message:
      'A sandbox key cannot change a live template. Use a live key with scope full, or create a template with the same name with POST /templates: the sandbox then uses that one.',
  }),
  'name-taken': conflict('name', 'Another template of this account has this name. Choose another name.'),
  'layout-unknown': failure('NOT_FOUND', {
    message: 'No template of this account has this layoutTemplateId.',
    details: [{ field: 'layoutTemplateId', message: 'is not the id of a template of this account' }],
  }),
  'layout-without-slot': conflict(
    'layoutTemplateId',
    'The html of the layout has no {{ content }}. Add it, or choose another layout.',
  ),
  'layout-has-layout': conflict(
    'layoutTemplateId',
    'The template with this layoutTemplateId has a layout itself. Choose one without a layout.',
  ),
  'is-layout': conflict(
    'layoutTemplateId',
    'Other templates use this one as their layout, so it cannot have a layout itself.',
  ),
  'slot-needed': conflict(
    'html',
    'Other templates use this one as their layout, so its html must contain {{ content }}.',
  ),
  outdated: outdated.failure,
  'in-use': conflict('templateId', 'Other templates use this one as their layout. Change or delete them first.'),
};
