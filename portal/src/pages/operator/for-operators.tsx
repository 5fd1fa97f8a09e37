/** The frame of operator pages: other users see who the page is for, and no request is made. */
import type { ComponentType } from 'react';
import { IconLock } from '../../icons.ts';
import { Page } from '../../parts/page.tsx';
import { EmptyState } from '../../parts/states.tsx';
import { useScope } from '../../scope.ts';
import { operators } from '../../texts/operator.ts';

export function forOperators(title: string, Content: ComponentType): ComponentType {
  return function OperatorPage() {
    const { person } = useScope();
    if (person.isOperator) return <Content />;
    return (
      <Page title={title}>
        <EmptyState icon={<IconLock size={28} aria-hidden />} title={operators.forbidden}>
          {operators.forbiddenHint}
        </EmptyState>
      </Page>
    );
  };
}
