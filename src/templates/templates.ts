/**
 * Templates: the Liquid language in subject, html and text, with our rules on escaping, missing values and limits; and
 * templates that are stored under a name, in versions.
 */

export { threadTimeMs } from './context.ts';
export { UNSUBSCRIBE_VARIABLE } from './language.ts';
export { namesLink } from './parse.ts';
export {
  accountVariables,
  createRender,
  missingFailure,
  type ParsedParts,
  type Rendered,
  settleDeclared,
  type ToRender,
} from './render.ts';
export { createTemplateSource, type TemplateSource, type UsableTemplate } from './source.ts';
export { describeTemplateOperation, findExtrasOperation, type TemplateExtra } from './store.ts';
export { validateSources } from './validate.ts';
