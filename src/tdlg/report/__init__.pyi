from .card import ModelCard as ModelCard
from .outliers import write_outliers as write_outliers
from .page import build_report as build_report
from .page import write_curve as write_curve
from .page import write_report as write_report
