"""Numbers from many documents: how many units say yes, and how many say each label.

A unit's opinion is a function of that unit and of public text. Opinions are counted, with discrete
Gaussian noise on every count (docs/surveys.md).
"""
