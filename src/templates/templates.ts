/**
 * Templates: the Liquid language in subject, html and text, with our rules on escaping, missing values and limits; and
 * templates that are stored under a name, in versions.
 */

export { threadTimeMs } from './budget.ts';
export { UNSUBSCRIBE_VARIABLE } from './output.ts';
export { namesLink } from './parse.ts';
export { createRender, missingFailure, type ParsedParts, type Rendered, type ToRender } from './render.ts';
export { createTemplateSource, type TemplateSource, type UsableTemplate } from './source.ts';
export { validateSources } from './validate.ts';
export { accountVariables, settleDeclared } from './variables.ts';
